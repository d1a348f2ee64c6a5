"""The controller is the Raft leader: there is one, another takes over, the old one follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.cluster import REPLICATED, Cluster
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import wait_until

ELECTED_WITHIN_S = 5.0


def _agreed(cluster: Cluster, ids: tuple[int, ...]) -> tuple[int, int] | None:
    """(leader, term) once these brokers name the same."""
    views: list[dict[str, Any]] = [cluster.view(id_) for id_ in ids]
    said = {(each["raft"]["leader"], each["raft"]["term"]) for each in views if each}
    if len(said) != 1 or not all(views):
        return None
    (leader, term) = said.pop()
    return (leader, term) if leader in ids else None


def _elected(cluster: Cluster, ids: tuple[int, ...]) -> tuple[int, int]:
    """(leader, term) that these brokers agree on, in the time that the machine gave them."""
    watch = Stopwatch(*(cluster.broker(id_).pid for id_ in ids))
    agreed = wait_until(lambda: _agreed(cluster, ids), 60, "a controller that all name")
    assert watch.seconds < ELECTED_WITHIN_S
    return agreed or (0, 0)


def _one_leads_equal_chains(cluster: Cluster) -> bool:
    """One leads, the others follow, and all chains end alike (leadership may still be going home
    to preferred replicas: each time is a block, at its replicas a moment later)."""
    views = [cluster.view(id_) for id_ in cluster.voters]
    if not all(views):
        return False
    rafts = [view["raft"] for view in views]
    roles = sorted(raft["role"] for raft in rafts)
    ends = {(raft["head"], raft["commit"]) for raft in rafts}
    return roles == ["follower", "follower", "leader"] and len(ends) == 1


def _leaders(cluster: Cluster, id_: int) -> set[int]:
    return {each["leader"] for each in cluster.view(id_).get("partitions", ())}


def _topics(cluster: Cluster, id_: int) -> set[str]:
    admin = AdminClient({"bootstrap.servers": cluster.broker(id_).bootstrap, "log_level": 0})
    return set(admin.list_topics(timeout=30).topics)


def test_one_controller_and_a_new_one_within_five_seconds(tmp_path: Path) -> None:
    """Checklist rows 1-3, 14 and 15."""
    with Cluster(tmp_path, **REPLICATED) as cluster:
        first, term = _elected(cluster, cluster.voters)
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("before", partitions=3)])

        cluster.kill(first)
        left = tuple(each for each in cluster.voters if each != first)
        second, later = _elected(cluster, left)
        assert later > term
        # It has the block that was acknowledged, and applies it once it has committed one of its
        # own term; until then its metadata are those that it knew to be committed.
        wait_until(lambda: "before" in _topics(cluster, second), 30, "the acknowledged topic")
        with BlockingClient(cluster.broker(second).bootstrap) as client:
            client.create_topics([NewTopic("after", partitions=3, replication_factor=2)])
        wait_until(
            lambda: set() < _leaders(cluster, second) <= set(left),
            30,
            "leaders among those that live",
        )

        cluster.restart(first)
        cluster.wait_settled()
        wait_until(lambda: _one_leads_equal_chains(cluster), 30, "one leader and equal chains")
        assert {"before", "after"} <= _topics(cluster, first)
