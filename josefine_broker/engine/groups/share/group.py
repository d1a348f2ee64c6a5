"""A share group as a value: its members and what they are assigned (KIP-932).

Rules: as for groups of the consumer protocol, a group is never changed; a heartbeat makes the next
one, and the difference is written to the log. Members share partitions, so none waits for another:
each has its target assignment with its next heartbeat.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any
from uuid import UUID

from josefine_broker.engine.groups.consumer.subscriptions import Topics
from josefine_broker.engine.groups.consumer.values import NO_PARTS, Parts
from josefine_broker.engine.groups.share.states import (
    ShareGroupEvent,
    ShareGroupState,
    next_group_state,
)

JOINING_EPOCH, LEAVING_EPOCH = 0, -1
"""Epochs that a heartbeat sends in place of the member's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBeat:
    """A ShareGroupHeartbeat. None means unchanged: a client sends these fields when it joins, and
    then only when they differ."""

    member_id: str
    epoch: int
    """The one that the member knows; JOINING_EPOCH and LEAVING_EPOCH are requests."""
    rack_id: str | None = None
    topics: frozenset[str] | None = None
    """Names: a topic may be subscribed to before it exists."""
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBeatAnswer:
    """The answer to a heartbeat. `parts`: its assignment; None: unchanged."""

    member_id: str
    epoch: int
    parts: Parts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """One member."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    """A member that did not get the newer one still reports it."""
    assigned: Parts = NO_PARTS
    """What its last heartbeat gave it. The group's target may differ until the next one."""


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


def _no_topics() -> Mapping[UUID, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroup:
    """One group."""

    group_id: str
    epoch: int = 0
    """Grows with each change that requires a new assignment."""
    metadata_hash: int = 0
    """Of the topics that are read, and their partitions."""
    target_epoch: int = 0
    """The group's epoch when `target` was computed. It is smaller than `epoch` after a member left,
    until the next heartbeat computes the target."""
    state: ShareGroupState = ShareGroupState.EMPTY
    members: Mapping[str, ShareMember] = field(default_factory=_empty)
    target: Mapping[str, Parts] = field(default_factory=_empty)
    """Member id → the partitions that it is to have."""
    topics: Mapping[UUID, int] = field(default_factory=_no_topics)
    """The topics of which the group has or will have share state, and how many partitions of
    each."""

    def moved(self, event: ShareGroupEvent, **changes: Any) -> "ShareGroup":
        """The group after an event. Raises Fatal if the event is not possible in its state."""
        return replace(self, state=next_group_state(self.state, event), **changes)

    def with_member(self, member: ShareMember) -> "ShareGroup":
        """The group with this member added or replaced."""
        return replace(self, members={**self.members, member.member_id: member})

    def target_of(self, member_id: str) -> Parts:
        """The partitions that a member is to have; none if the target does not name it."""
        return self.target.get(member_id, NO_PARTS)

    def without(self, gone: Collection[str]) -> "ShareGroup":
        """The group without these members; the same object if none of them is in it. The epoch
        grows, and the next heartbeat assigns what they had."""
        if not any(member_id in self.members for member_id in gone):
            return self
        members = {key: each for key, each in self.members.items() if key not in gone}
        target = {key: each for key, each in self.target.items() if key not in gone}
        event = ShareGroupEvent.CHANGED if members else ShareGroupEvent.EMPTIED
        return self.moved(event, epoch=self.epoch + 1, members=members, target=target)


def read_names(members: Iterable[ShareMember], topics: Topics) -> frozenset[str]:
    """The existing topics that the members read."""
    named = frozenset[str]().union(*(each.topics for each in members))
    return frozenset(name for name in named if name in topics)


def metadata_hash(members: Mapping[str, ShareMember], topics: Topics) -> int:
    """A hash of the topics that are read, their ids and partition counts: 64 bits, signed; 0 for
    none.

    A new coordinator compares it with the stored one, and so notices a topic that was created,
    deleted or enlarged while nobody coordinated the group. It is not Kafka's hash: a group that
    Kafka wrote gets one more epoch.
    """
    names = read_names(members.values(), topics)
    if not names:
        return 0
    digest = blake2b(digest_size=8)
    for name in sorted(names):
        entry = topics[name]
        digest.update(f"{name}\n{entry.topic_id.hex}\n{len(entry.partitions)}\n".encode())
    return int.from_bytes(digest.digest(), signed=True)
