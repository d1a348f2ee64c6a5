"""The leases of table topics: which topics a writer process has, by its partitions in the group.

The writers are members of one consumer group, whose coordinator removes a member after its session
timeout. A table has one chain, so one process has all partitions of its topic: the process that is
assigned the topic's lease partition. That partition differs by topic, because assignors start each
topic with the same member: with partition 0 for all, one process would have every table. A lease is
only for efficiency; two writers of one table are decided by its chain. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from josefine_broker.base.ids import TopicPartition

GROUP = "josefine-tables"
"""The group with the offsets that tables have reached. It has no members, so every writer can
commit to it, also one that runs once next to others."""
LEASES = "josefine-tables-leases"
"""The group whose members are the writers. It has no offsets."""


def lease_partition(topic: str, partitions: int) -> int:
    """The partition whose assignment is the lease of this topic."""
    return zlib.crc32(topic.encode()) % max(1, partitions)


def leased(assigned: Iterable[TopicPartition], counts: Mapping[str, int]) -> frozenset[str]:
    """The topics whose lease partition is assigned. `counts`: topic → number of partitions."""
    return frozenset(
        tp.topic
        for tp in assigned
        if tp.partition == lease_partition(tp.topic, counts.get(tp.topic, 0))
    )
