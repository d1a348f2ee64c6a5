"""The subscriptions of a group: which one holds which partition, by the group's committed offsets,
and when each was last active.

A subscription is the committed offset of its partition, marked with its id; a commit without the
mark belongs to none. So it is as durable as an offset, and moves with the group's coordinator. Its
offset is the one that CONS last named. A subscription that is silent for the session timeout loses
the partition. Only a group's coordinator grants, and decides in one step: no partition is granted
twice.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.groups.text_groups import holder_in, marked

HEARD_MAX = 10_000
"""Subscriptions whose last activity is remembered in memory; with more the oldest are dropped."""

COMMIT_INTERVAL_MS = 5_000
"""Time between two commits of a subscription's offset, as Kafka's auto.commit.interval.ms."""


class SubscriptionId(NamedTuple):
    """`<group>-<partition>-<eight hex digits>`: names the place where it is stored."""

    group_id: str
    partition: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.group_id}-{self.partition}-{self.nonce}"


def parse_id(text: str) -> SubscriptionId | None:
    """None: not an id of ours."""
    parts = text.rsplit("-", 2)
    if len(parts) != 3 or not parts[0] or not _is_number(parts[1]) or len(parts[2]) != 8:
        return None
    return SubscriptionId(parts[0], int(parts[1]), parts[2])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def held(before: CommittedOffset | None, id_: str, now_ms: int, offset: int) -> CommittedOffset:
    """The committed offset of a partition that `id_` holds from now on; empty: it is free."""
    epoch = -1 if before is None else before.leader_epoch
    return CommittedOffset(offset, epoch, marked(id_), now_ms)


@dataclass(slots=True)
class Subscriptions:
    """Mutable: a coordinator's state in addition to the committed offsets. Times are wall clock."""

    session_timeout_ms: int
    started_ms: int
    """No subscription counts as silent for longer than this process runs."""
    writing: set[tuple[str, TopicPartition]] = field(default_factory=set)
    """Written, and not committed yet: no other decision about them is made meanwhile."""
    heard_ms: dict[str, int] = field(default_factory=dict)

    def is_free(
        self, group_id: str, tp: TopicPartition, committed: CommittedOffset | None, now_ms: int
    ) -> bool:
        """Whether no recently active subscription holds this partition."""
        if (group_id, tp) in self.writing:
            return False
        id_ = "" if committed is None else holder_in(committed.metadata)
        if not id_ or committed is None:
            return True
        last_ms = max(committed.commit_time_ms, self.heard_ms.get(id_, 0), self.started_ms)
        return now_ms - last_ms > self.session_timeout_ms

    def heard(self, id_: str, now_ms: int) -> None:
        self.heard_ms[id_] = now_ms
        if len(self.heard_ms) > HEARD_MAX:
            oldest_ms = now_ms - self.session_timeout_ms
            self.heard_ms = {each: at for each, at in self.heard_ms.items() if at >= oldest_ms}

    def is_commit_due(self, committed: CommittedOffset, offset: int, now_ms: int) -> bool:
        """Whether a CONS must be written: as a sign of life, or for its new offset."""
        since_ms = now_ms - committed.commit_time_ms
        has_moved = offset != committed.offset and since_ms >= COMMIT_INTERVAL_MS
        return has_moved or since_ms >= self.session_timeout_ms // 3
