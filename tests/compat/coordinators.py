"""Names whose coordinator is a broker that a test is about to kill, or is another one."""

from __future__ import annotations

import itertools

import pytest

from josefine_broker.engine.groups.offsets import coordinator_partition
from tests.support.cluster import Cluster

PARTITIONS = 8
"""Of a coordinators' topic, by default."""


def daily_is(client: str, *clients: str) -> list[object]:
    """Parameters: of all clients one is tried every day."""
    return [
        each if each == client else pytest.param(each, marks=pytest.mark.slow) for each in clients
    ]


def kept_by(
    cluster: Cluster, coordinators: str, topic: str, partitions: int, *, by_leader: bool
) -> tuple[str, int]:
    """A name, and a partition of the topic whose leader coordinates it, or does not. `coordinators`
    is the topic that has such names, made already."""
    cluster.wait_settled()
    for at, index in itertools.product(range(PARTITIONS), range(partitions)):
        is_leader = cluster.leader_of(coordinators, at) == cluster.leader_of(topic, index)
        if is_leader is by_leader:
            names = (f"{topic}-{number}" for number in itertools.count())
            kept = (each for each in names if coordinator_partition(each, PARTITIONS) == at)
            return next(kept), index
    raise AssertionError(f"no partition of {coordinators} is led where it should be")
