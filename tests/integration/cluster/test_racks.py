"""Racks: copies are spread over them, and a consumer reads from the copy next to it (KIP-392)."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.integration.cluster.records import produce
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

RECORDS = 2_000


def _fetched_bytes(cluster: Cluster, id_: int) -> float:
    """What consumers and followers fetched from a broker so far."""
    _, text = cluster.broker(id_).get("/metrics")
    found = re.search(r"^josefine_fetched_bytes_total ([0-9.e+]+)$", text, re.MULTILINE)
    assert found, "josefine_fetched_bytes_total is exported"
    return float(found.group(1))


def test_consumer_reads_from_the_replica_in_its_rack(tmp_path: Path) -> None:
    """Checklist row 35."""
    with Cluster(tmp_path, start=False, **REPLICATED) as cluster:
        for id_ in cluster.voters:
            cluster.broker(id_).overrides["broker__rack"] = f"rack-{id_}"
        cluster.start()
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("near", partitions=1)])
            produce(client, "near", RECORDS)
        cluster.wait_settled()
        leader = cluster.leader_of("near")
        follower = next(each for each in cluster.voters if each != leader)
        before = _fetched_bytes(cluster, follower)

        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "near",
                "client.rack": f"rack-{follower}",
                "log_level": 0,
            }
        )
        with contextlib.closing(consumer):
            consumer.assign([TopicPartition("near", 0, 0)])
            seen: list[bytes] = []

            def read() -> bool:
                for message in consumer.consume(500, timeout=0.5):
                    value = message.value()
                    assert isinstance(value, bytes)
                    seen.append(value)
                return len(seen) >= RECORDS

            wait_until(read, 60, "every record")

        assert len(set(seen)) == len(seen) == RECORDS
        assert _fetched_bytes(cluster, follower) > before, "the follower served nothing"
