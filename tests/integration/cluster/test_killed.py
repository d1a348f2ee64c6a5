"""kill -9 under load: of the partition's leader, and of the controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.cluster import REPLICATED, Cluster
from tests.support.stopwatch import Stopwatch
from tests.support.workload import Workload, check, read_back

PARTITIONS = 3
ELECTION_TIMEOUT_MS = 5_000


@pytest.mark.long_proof(share=3, among="histories of clusters")
@pytest.mark.parametrize("victim", ["leader", "controller"])
def test_killed_broker_costs_no_acknowledged_record(tmp_path: Path, victim: str) -> None:
    """Checklist rows 36 and 94."""
    with Cluster(tmp_path, **REPLICATED) as cluster:
        cluster.wait_settled()  # a starved broker may have been fenced again
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("load", partitions=PARTITIONS)])
        with Workload(cluster.bootstrap, "load", partitions=PARTITIONS) as load:
            who = cluster.controller() if victim == "controller" else cluster.leader_of("load")
            cluster.kill(who)
            load.wait_acknowledged(300)
            cluster.restart(who)
            cluster.wait_settled()
            load.wait_acknowledged(300)
        assert load.account.failed == []
        check(load.account, read_back(cluster.bootstrap, "load", PARTITIONS))
        cluster.wait_settled()


def test_every_broker_may_be_killed_in_turn_and_all_at_once(tmp_path: Path) -> None:
    with Cluster(tmp_path, **REPLICATED) as cluster:
        cluster.wait_settled()  # a starved broker may have been fenced again
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("load", partitions=PARTITIONS)])
        with Workload(cluster.bootstrap, "load", partitions=PARTITIONS) as load:
            for who in cluster.voters:
                cluster.kill(who)
                load.wait_acknowledged(100)
                cluster.restart(who)
                cluster.wait_settled()
            for who in cluster.voters:
                cluster.kill(who)
            cluster.spawn(*cluster.voters)
            cluster.wait_serving(*cluster.voters)
            load.wait_acknowledged(100)
        cluster.wait_settled()
        check(load.account, read_back(cluster.bootstrap, "load", PARTITIONS))


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_killed_controller_is_followed_by_another_before_any_election_timeout(
    tmp_path: Path,
) -> None:
    """Its port refuses connections: that is word enough. (A long timeout, to tell them apart.)"""
    with Cluster(tmp_path, timings={"raft__election_timeout_ms": ELECTION_TIMEOUT_MS}) as cluster:
        cluster.wait_settled()
        who = cluster.controller()
        watch = Stopwatch(*(cluster.broker(id_).pid for id_ in cluster.voters if id_ != who))
        cluster.kill(who)

        assert cluster.controller() != who

        assert watch.seconds < ELECTION_TIMEOUT_MS / 1_000
