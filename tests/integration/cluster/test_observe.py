"""What a broker tells of its cluster over HTTP: place, Raft, image, chain, metrics."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.host.metric_table import METRICS
from tests.support.broker import START_TIMEOUT_S
from tests.support.cluster import REPLICATED, Cluster
from tests.support.ports import free_ports
from tests.support.waiting import wait_until
from tests.unit.josefine_broker.api.world import batch_of


def metric(text: str, name: str) -> float:
    found = re.search(rf"^josefine_{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found is not None, name
    return float(found.group(1))


def test_health_of_a_broker_that_waits_is_503_and_says_for_what(tmp_path: Path) -> None:
    """Checklist row 93."""
    (port,) = free_ports(1)
    with Cluster(tmp_path, start=False, admin__address=f"127.0.0.1:{port}") as cluster:
        broker = cluster.broker(1)
        broker.admin_url = f"http://127.0.0.1:{port}"
        broker.spawn()

        def check() -> dict[str, Any] | None:
            try:
                status, body = broker.get("/health")
            except OSError:
                return None
            assert status == 503
            found: dict[str, Any] = json.loads(body)["checks"]["cluster"]
            view = cluster.view(1)
            # What it reaches of the others it learns while it is asked.
            return found | view if view.get("waits_for") == found["detail"] else None

        found = wait_until(check, START_TIMEOUT_S, "a reason that both paths tell")

        assert found is not None
        assert found["ok"] is False
        assert "waiting for a majority of the voters 1, 2, 3" in found["detail"]
        assert found["place"] == "unknown"


def test_cluster_and_metrics_tell_of_the_loss_of_a_broker(tmp_path: Path) -> None:
    with Cluster(tmp_path, **REPLICATED) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("watched", partitions=6)])
        cluster.wait_settled()
        controller = cluster.controller()
        lost = next(each for each in cluster.voters if each != controller)
        cluster.kill(lost)
        counts = cluster.wait_settled()[0]["counts"]

        assert counts["partitions"] == 6
        assert (counts["live"], counts["under_replicated"], counts["offline"]) == (2, 6, 0)
        texts = [cluster.broker(each).get("/metrics")[1] for each in cluster.alive]
        assert sum(metric(text, "partitions_led") for text in texts) == 6
        assert sum(metric(text, "partitions_under_replicated") for text in texts) == 6
        assert sum(metric(text, "raft_is_leader") for text in texts) == 1
        assert {metric(text, "brokers_fenced") for text in texts} == {1}
        assert {metric(text, "partitions_offline") for text in texts} == {0}
        assert sum(metric(text, "controller_decisions_total") for text in texts) > 0
        assert min(metric(text, "raft_terms_seen_total") for text in texts) >= 1
        assert 'josefine_replica_lag_records{partition="' in "".join(texts)


OPTIONAL = ("tls_", "listener_", "raft_tls_", "authorization_", "jwks_", "traces_")
"""What a broker without them does not count."""


def test_every_metric_of_the_table_is_exported_and_no_other(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("counted", partitions=1)])
            written = TopicPartition("counted", 0)
            client.produce({written: bytearray(batch_of(b"x" * 1_000))})
            client.fetch({written: 0})
        text = cluster.broker(1).get("/metrics")[1]

    found = set(re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram)$", text, re.MULTILINE))
    assert {name for name in found if not name.endswith("_created")} == {
        each.exported for each in METRICS.values() if not each.name.startswith(OPTIONAL)
    }
    assert metric(text, 'topic_records_in_total{topic="counted"}') == 1
    assert metric(text, 'topic_bytes_in_total{topic="counted"}') > 1_000
    assert metric(text, 'topic_bytes_out_total{topic="counted"}') > 1_000
    assert metric(text, "produced_records_total") == 1
    assert metric(text, "process_open_fds") > 3
    assert metric(text, "raft_store_seconds_count") > 0
    assert metric(text, "disk_free_bytes") > 0
    assert metric(text, "connection_bytes_in_total") > 1_000


def test_chain_tells_every_block_with_what_it_changed(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("told", partitions=2)])
        broker = cluster.broker(1)

        chain = json.loads(broker.get("/cluster/chain")[1])
        newest = json.loads(broker.get("/cluster/chain?last=1")[1])["blocks"]

        blocks = chain["blocks"]
        assert [each["parent"] for each in blocks[1:]] == [each["id"] for each in blocks[:-1]]
        assert all(each["committed"] and not each["dead"] for each in blocks)
        assert blocks[0]["kind"] == "birth"
        assert "create topic told, 2 partitions x 1" in [each["what"] for each in blocks]
        assert newest == blocks[-1:]
        assert chain["head"] == blocks[-1]["id"]
        status, body = broker.get("/cluster/chain?last=all")
        assert (status, json.loads(body)["error"]) == (
            400,
            "last=all: expected a number from 1 to 10000",
        )


def test_chain_shows_the_branch_that_a_lost_leader_had_alone(tmp_path: Path) -> None:
    # A long timeout: without the others it must lead until it is asked.
    with Cluster(tmp_path, raft__election_timeout_ms=2_000) as cluster:
        cluster.wait_settled()
        leader = cluster.controller()
        others = [each for each in cluster.voters if each != leader]

        def chain() -> dict[str, Any]:
            body: dict[str, Any] = json.loads(cluster.broker(leader).get("/cluster/chain")[1])
            return body

        with BlockingClient(cluster.broker(leader).bootstrap) as client:
            client.metadata()
            for each in others:
                cluster.kill(each)
            with contextlib.suppress(KafkaError):
                client.create_topics([NewTopic("alone", partitions=1)], timeout_ms=300)

        def unanswered() -> dict[str, Any] | None:
            found = chain()
            return found if found["head"] != found["commit"] else None

        alone = wait_until(unanswered, 30, "a block that it has alone") or {}
        cluster.kill(leader)
        cluster.spawn(*others)
        cluster.wait_serving(*others)
        cluster.restart(leader)
        cluster.wait_settled()

        blocks = {each["id"]: each for each in chain()["blocks"]}
        assert blocks[alone["head"]]["dead"]
        assert not blocks[alone["head"]]["committed"]
        assert not blocks[alone["commit"]]["dead"]
        assert blocks[alone["commit"]]["committed"]
        metrics = cluster.broker(leader).get("/metrics")[1]
        assert metric(metrics, "raft_dead_blocks_total") >= 1
