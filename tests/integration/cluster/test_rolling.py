"""A rolling restart under load: each broker hands over, stops, starts, and takes part again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until
from tests.support.workload import Workload, check, read_back

PARTITIONS = 3


def _knows_leaders_but(cluster: Cluster, id_: int, but: int) -> bool:
    """Of the topic's partitions, as this broker sees it: it may hear of the last one later than
    the one that stops."""
    partitions = cluster.view(id_).get("partitions", ())
    leaders = {each["leader"] for each in partitions if each["topic"] == "load"}
    return bool(leaders) and but not in leaders


def test_rolling_restart_loses_nothing_and_stops_nobody(tmp_path: Path) -> None:
    """Checklist row 93."""
    # Time enough to hand over on a machine that is busy with other things.
    patient = {"broker__controlled_shutdown_timeout_ms": 15_000, **REPLICATED}
    with Cluster(tmp_path, **patient) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("load", partitions=PARTITIONS)])
        with Workload(cluster.bootstrap, "load", partitions=PARTITIONS) as load:
            for who in cluster.voters:
                assert cluster.stop(who) == 0
                assert "before everything was handed over" not in cluster.broker(who).output
                other = next(each for each in cluster.voters if each != who)
                wait_until(partial(_knows_leaders_but, cluster, other, who), 30, "its view")
                load.wait_acknowledged(50)
                cluster.restart(who)
                cluster.wait_settled()
        assert load.account.failed == []
        assert load.account.sent == load.account.count
        check(load.account, read_back(cluster.bootstrap, "load", PARTITIONS))
