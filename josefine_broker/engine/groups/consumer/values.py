"""The values of consumer-protocol groups: groups, members, heartbeats and their answers.

Rules: a group is never changed, `heartbeats.py` and `leaving.py` make the next one; the difference
between two of them is written to the log (`records.py`), so log and group are equal. Epochs only
grow; a partition has one owner at most. Times are milliseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from josefine_broker.engine.groups.consumer.states import (
    ConsumerGroupEvent,
    ConsumerGroupState,
    ConsumerMemberEvent,
    ConsumerMemberState,
    next_group_state,
    next_member_state,
)

JOINING_EPOCH = 0
AWAY_EPOCH = -2
"""A static member's process has stopped, and its next one is expected (KIP-848)."""
NO_MEMBER = ""
WAITING_MS = 2_000
"""Heartbeat interval of a member that waits for partitions; the default for others is 5,000. Not
less: librdkafka waits no longer than this for the answer to a heartbeat."""
WAITING_MEMBER_MS = 20
"""Per member of its group: the whole group sends at most 50 heartbeats a second."""


class Part(NamedTuple):
    """A partition by its topic's id: a topic that is created again has another id."""

    topic_id: UUID
    partition: int


Parts = frozenset[Part]
NO_PARTS: Parts = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A ConsumerGroupHeartbeat. None, and -1 for the timeout, mean unchanged."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    """Empty: the regular expression is removed."""
    assignor: str | None = None
    owned: Parts | None = None
    """The partitions that it owns."""
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it reports everything, as after a lost answer."""
        says_topics = self.topics is not None or self.regex is not None
        return self.owned is not None and self.rebalance_timeout_ms != -1 and says_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatAnswer:
    """The answer to a heartbeat. `parts`: its assignment; None: unchanged."""

    member_id: str = NO_MEMBER
    epoch: int = 0
    parts: Parts | None = None
    waits_among: int = 0
    """For a member that waits for partitions of others: the size of its group; else 0."""

    def interval_ms(self, configured_ms: int) -> int:
        """The heartbeat interval of the member. A waiting member gets a shorter one: its partitions
        may be free at any moment, and only its next heartbeat assigns them."""
        if not self.waits_among:
            return configured_ms
        return min(configured_ms, max(WAITING_MS, WAITING_MEMBER_MS * self.waits_among))


class ClassicSide(NamedTuple):
    """The classic part of a member: the session timeout that it chose, and its assignors with the
    metadata for each."""

    session_timeout_ms: int
    """The broker sets it for members of the consumer protocol; classic ones choose."""
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = -1
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    """The previous epoch: a member that did not get the newer one still reports it."""
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: Parts = NO_PARTS
    """The partitions that it was assigned."""
    revoking: Parts = NO_PARTS
    """The partitions that it has to revoke; it owns them until it reports that it did."""
    classic: ClassicSide | None = None
    """None: it uses the consumer protocol."""

    @property
    def is_away(self) -> bool:
        return self.epoch == AWAY_EPOCH

    def moved(
        self, event: ConsumerMemberEvent, epoch: int, assigned: Parts, revoking: Parts
    ) -> "ConsumerMember":
        """The member after `event`, with its epoch and partitions."""
        previous = self.previous_epoch if epoch == self.epoch else max(self.epoch, JOINING_EPOCH)
        return replace(
            self,
            state=next_member_state(self.state, event),
            epoch=epoch,
            previous_epoch=previous,
            assigned=assigned,
            revoking=revoking,
        )


def _nobody() -> Mapping[str, ConsumerMember]:
    return MappingProxyType({})


def _nothing() -> Mapping[str, Parts]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """One group."""

    group_id: str
    epoch: int = 0
    """Grows with every change of its members, their subscriptions, or the subscribed topics."""
    metadata_hash: int = 0
    """Hash of the subscribed topics and their partitions (`subscriptions.py`)."""
    target_epoch: int = 0
    """The epoch that `target` was computed for."""
    members: Mapping[str, ConsumerMember] = field(default_factory=_nobody)
    target: Mapping[str, Parts] = field(default_factory=_nothing)
    """The target assignment: what each member will own in the end."""
    state: ConsumerGroupState = ConsumerGroupState.EMPTY

    def moved(self, event: ConsumerGroupEvent, **changes: object) -> "ConsumerGroup":
        """The group after `event`. Raises Fatal where the table does not list it."""
        return replace(self, state=next_group_state(self.state, event), **changes)  # type: ignore[arg-type]

    def with_member(self, member: ConsumerMember) -> "ConsumerGroup":
        """The group with this member added or replaced."""
        return replace(self, members={**self.members, member.member_id: member})

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member with that instance id."""
        found = (each for each in self.members.values() if each.instance_id == instance_id)
        return next(found, None)

    def target_of(self, member_id: str) -> Parts:
        return self.target.get(member_id, NO_PARTS)

    def held_by_others(self, member_id: str) -> set[Part]:
        """The partitions that other members own, or have not confirmed to have revoked.

        A partition is free only when its member has confirmed by a heartbeat that it revoked it:
        until then that client may still process records of it.
        """
        held: set[Part] = set()
        for key, each in self.members.items():
            if key != member_id:
                held |= each.assigned
                held |= each.revoking
        return held

    def is_reconciled(self, member: ConsumerMember) -> bool:
        """Whether it owns its target; also while it is away."""
        if member.state is not ConsumerMemberState.STABLE:
            return False
        if member.is_away:
            return member.assigned == self.target_of(member.member_id)
        return member.epoch == self.target_epoch

    @property
    def is_converged(self) -> bool:
        return all(self.is_reconciled(each) for each in self.members.values())

    def settled(self) -> "ConsumerGroup":
        """The group, stable if every member owns its target now."""
        if self.state is ConsumerGroupState.RECONCILING and self.is_converged:
            return self.moved(ConsumerGroupEvent.CONVERGED)
        return self


class Settings(NamedTuple):
    """The broker's settings that the decisions need."""

    size_max: int
    """The largest number of members."""


def parts_of(topics: Iterable[tuple[UUID | None, Iterable[int]]]) -> Parts:
    """The set of partitions from the wire format's topics."""
    return frozenset(
        Part(topic_id, index) for topic_id, indexes in topics if topic_id for index in indexes
    )


def by_topic(parts: Parts) -> list[tuple[UUID, tuple[int, ...]]]:
    """The wire format's topics, in one order for equal sets."""
    found: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(parts):
        found.setdefault(topic_id, []).append(index)
    return [(topic_id, tuple(indexes)) for topic_id, indexes in found.items()]
