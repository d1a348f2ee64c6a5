"""Racks: copies are spread over them, and readers read from the copy next to them (KIP-392)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, TopicPartition

from josefine_broker.base.ids import TopicPartition as Partition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_spark.options.connections import drop_client
from josefine_spark.options.options import Connection, ReadOptions
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.task_reader import read_range
from tests.integration.cluster.records import produce
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

RECORDS = 2_000


@dataclass
class Racks:
    """Three brokers, each in a rack of its own, with RECORDS in the topic `near`."""

    cluster: Cluster
    follower: int

    def fetched_bytes(self) -> float:
        """What consumers and followers fetched from that follower so far."""
        _, text = self.cluster.broker(self.follower).get("/metrics")
        found = re.search(r"^josefine_fetched_bytes_total ([0-9.e+]+)$", text, re.MULTILINE)
        assert found, "josefine_fetched_bytes_total is exported"
        return float(found.group(1))


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    with Cluster(tmp_path_factory.mktemp("racks"), start=False, **REPLICATED) as cluster:
        for id_ in cluster.voters:
            cluster.broker(id_).overrides["broker__rack"] = f"rack-{id_}"
        cluster.start()
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("near", partitions=1)])
            produce(client, "near", RECORDS)
        cluster.wait_settled()
        leader = cluster.leader_of("near")
        yield Racks(cluster, next(each for each in cluster.voters if each != leader))


def test_consumer_reads_from_the_replica_in_its_rack(racks: Racks) -> None:
    """Checklist row 35."""
    before = racks.fetched_bytes()

    consumer = Consumer(
        {
            "bootstrap.servers": racks.cluster.bootstrap,
            "group.id": "near",
            "client.rack": f"rack-{racks.follower}",
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
    assert racks.fetched_bytes() > before, "the follower served nothing"


@pytest.mark.parametrize("read_committed", [False, True])
def test_a_task_of_spark_reads_from_the_replica_in_its_rack(
    racks: Racks, read_committed: bool
) -> None:
    connection = Connection(bootstrap=racks.cluster.bootstrap)
    wanted = OffsetRange(partition=Partition("near", 0), topic_id="", start=0, end=RECORDS)
    served = {}
    for rack in ("", f"rack-{racks.follower}"):
        options = ReadOptions(connection=connection, rack=rack, read_committed=read_committed)
        before = racks.fetched_bytes()

        batches = list(read_range(options, wanted))

        offsets = [offset for one in batches for offset in one.column("offset").to_pylist()]
        assert offsets == list(range(RECORDS))
        served[bool(rack)] = racks.fetched_bytes() > before
    drop_client(connection)

    assert served == {False: False, True: True}
