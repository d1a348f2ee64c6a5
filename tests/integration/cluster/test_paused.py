"""SIGSTOP and SIGCONT: a leader that stands still, is replaced, and goes on as if it still led."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.cluster import REPLICATED, Cluster
from tests.support.workload import Workload, check, read_back


@pytest.mark.long_proof(share=3, among="histories of clusters")
@pytest.mark.parametrize("victim", ["leader", "controller"])
def test_broker_that_stood_still_comes_back_as_a_follower(tmp_path: Path, victim: str) -> None:
    """Checklist rows 36 and 94."""
    with Cluster(tmp_path, **REPLICATED) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("load", partitions=1)])
        with Workload(cluster.bootstrap, "load") as load:
            who = cluster.controller() if victim == "controller" else cluster.leader_of("load")
            cluster.pause(who)
            cluster.leader_of("load", but=who)
            load.wait_acknowledged(200)
            cluster.resume(who)
            cluster.wait_settled()
            load.wait_acknowledged(200)
        assert load.account.failed == []
        check(load.account, read_back(cluster.bootstrap, "load", 1))
