"""A rolling restart under load: each broker hands over, stops, starts, and takes part again."""

from __future__ import annotations

from pathlib import Path

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.cluster import REPLICATED, Cluster
from tests.support.workload import Workload, check, read_back

PARTITIONS = 3


def test_rolling_restart_loses_nothing_and_stops_nobody(tmp_path: Path) -> None:
    """Checklist row 93."""
    with Cluster(tmp_path, **REPLICATED) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("load", partitions=PARTITIONS)])
        with Workload(cluster.bootstrap, "load", partitions=PARTITIONS) as load:
            for who in cluster.voters:
                assert cluster.stop(who) == 0
                assert not any(
                    cluster.partition("load", index)["leader"] == who for index in range(PARTITIONS)
                )
                load.wait_acknowledged(50)
                cluster.restart(who)
                cluster.wait_settled()
        assert load.account.failed == []
        assert load.account.sent == load.account.count
        check(load.account, read_back(cluster.bootstrap, "load", PARTITIONS))
