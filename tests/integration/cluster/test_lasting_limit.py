"""A leader that has no file handles for ever hands over to brokers that can write."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.integration.test_no_file_handles import SEGMENT, Writer, limit_handles
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

TOPIC = "t"


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_leader_without_file_handles_hands_over_and_says_why(tmp_path: Path) -> None:
    with Cluster(tmp_path, **REPLICATED) as cluster:
        with BlockingClient(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, configs=SEGMENT)])
        writer = Writer(cluster.bootstrap)
        wait_until(lambda: writer.write(TOPIC), 30, "a first record")
        leader = cluster.leader_of(TOPIC)
        broker = cluster.broker(leader)
        limits = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        limit_handles(broker.pid)

        def has_moved() -> bool:
            """A segment is full at some record, and the next one needs a handle."""
            writer.write(TOPIC)
            other = next(each for each in cluster.alive if each != leader)
            known = cluster.view(other).get("partitions", ())
            leads = {each["leader"] for each in known if each["topic"] == TOPIC}
            return bool(leads - {leader, -1})

        wait_until(has_moved, 40, "another leader")
        wait_until(lambda: writer.write(TOPIC), 20, "a record that another leader takes")
        limit_handles(broker.pid, spare=1)  # for the connection that asks

        status, body = broker.get("/health")
        told = json.loads(body)["checks"]
        assert status == 503
        assert "hands over until this is resolved: a limit of this" in told["cluster"]["detail"]

        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limits)
        wait_until(lambda: broker.get("/health")[0] == 200, 40, "a broker that can write again")
        assert writer.write(TOPIC)
