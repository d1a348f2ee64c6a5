"""A group of the consumer protocol and its members as values; what a heartbeat says and is told.

Rules: a group is never changed, `heartbeats.py` and `leaving.py` make the next one; what lies
between two of them is what the log is told (`records.py`), so the log is the group. Epochs only
grow; a partition is had by one member at most. Times are milliseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.consumer.states import (
    ConsumerGroupEvent,
    ConsumerGroupState,
    ConsumerMemberEvent,
    ConsumerMemberState,
    next_group_state,
    next_member_state,
)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
AWAY_EPOCH = -2
"""A static member's process went, and its next one is to come (KIP-848)."""
NO_MEMBER = ""
WAITING_MS = 2_000
"""Between two heartbeats of a member that waits for partitions; by default others have 5,000. No
less: librdkafka gives a heartbeat no more time than that to be answered."""
WAITING_MEMBER_MS = 20
"""For each member of its group: all together are heard 50 times a second at most."""


class Part(NamedTuple):
    """A partition by its topic's id: a topic made anew under a name is another one."""

    topic_id: UUID
    partition: int


Parts = frozenset[Part]
NO_PARTS: Parts = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A ConsumerGroupHeartbeat. None, and -1 for the timeout: as it was said before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    """Empty: none any more."""
    assignor: str | None = None
    owned: Parts | None = None
    """What it has."""
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """It says everything, as one does that is not sure what its last answer was."""
        says_topics = self.topics is not None or self.regex is not None
        return self.owned is not None and self.rebalance_timeout_ms != -1 and says_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatAnswer:
    """What a heartbeat is told. `parts`: what it may have now; None: as it was told before."""

    member_id: str = NO_MEMBER
    epoch: int = 0
    parts: Parts | None = None
    waits_among: int = 0
    """Of one that is to have what others have not given up yet: members of its group; else 0."""

    def interval_ms(self, configured_ms: int) -> int:
        """In how long it is to be heard again. Who waits sooner: what it waits for is free at any
        moment, and only its next heartbeat gives it that."""
        if not self.waits_among:
            return configured_ms
        return min(configured_ms, max(WAITING_MS, WAITING_MEMBER_MS * self.waits_among))


class ClassicSide(NamedTuple):
    """What a member has that speaks the classic protocol: its session, which it chooses itself, and
    the assignors that it offered, with what it said for each."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member as it is now."""

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
    """The one before: a member that was not told of the newer one still says it."""
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: Parts = NO_PARTS
    """What it was told that it may have."""
    revoking: Parts = NO_PARTS
    """What it was told to give up; it has them until it says that it did."""
    classic: ClassicSide | None = None
    """None: it speaks the consumer protocol."""

    @property
    def is_away(self) -> bool:
        return self.epoch == AWAY_EPOCH

    def moved(
        self, event: ConsumerMemberEvent, epoch: int, assigned: Parts, revoking: Parts
    ) -> "ConsumerMember":
        """This member after `event`, in an epoch, with what it has there."""
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
    """One group as it is now."""

    group_id: str
    epoch: int = 0
    """Grows with every change of its members, of what they read, or of those topics."""
    metadata_hash: int = 0
    """Of the topics that are read, with their partitions (`subscriptions.py`)."""
    target_epoch: int = 0
    """The epoch that `target` was made for."""
    members: Mapping[str, ConsumerMember] = field(default_factory=_nobody)
    target: Mapping[str, Parts] = field(default_factory=_nothing)
    """What each member is to have in the end."""
    state: ConsumerGroupState = ConsumerGroupState.EMPTY

    def moved(self, event: ConsumerGroupEvent, **changes: object) -> "ConsumerGroup":
        """This group after `event`. Raises Fatal where the table does not list it."""
        return replace(self, state=next_group_state(self.state, event), **changes)  # type: ignore[arg-type]

    def with_member(self, member: ConsumerMember) -> "ConsumerGroup":
        """A new member, or a member as it is now."""
        return replace(self, members={**self.members, member.member_id: member})

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Who has that instance id."""
        found = (each for each in self.members.values() if each.instance_id == instance_id)
        return next(found, None)

    def target_of(self, member_id: str) -> Parts:
        return self.target.get(member_id, NO_PARTS)

    def held_by_others(self, member_id: str) -> set[Part]:
        """What other members have, or were not heard to have given up."""
        held: set[Part] = set()
        for key, each in self.members.items():
            if key != member_id:
                held |= each.assigned
                held |= each.revoking
        return held

    def is_reconciled(self, member: ConsumerMember) -> bool:
        """Whether it has what the target gives it; also while it is away."""
        if member.state is not ConsumerMemberState.STABLE:
            return False
        if member.is_away:
            return member.assigned == self.target_of(member.member_id)
        return member.epoch == self.target_epoch

    @property
    def is_converged(self) -> bool:
        return all(self.is_reconciled(each) for each in self.members.values())

    def settled(self) -> "ConsumerGroup":
        """Stable, if the last member has what the target gives it now."""
        if self.state is ConsumerGroupState.RECONCILING and self.is_converged:
            return self.moved(ConsumerGroupEvent.CONVERGED)
        return self


class Settings(NamedTuple):
    """What the decisions need to know of the broker's configuration."""

    size_max: int
    """Members of a group."""


def parts_of(topics: Iterable[tuple[UUID | None, Iterable[int]]]) -> Parts:
    """From the wire's shape: partitions by topic."""
    return frozenset(
        Part(topic_id, index) for topic_id, indexes in topics if topic_id for index in indexes
    )


def by_topic(parts: Parts) -> list[tuple[UUID, tuple[int, ...]]]:
    """The wire's shape, in one order for equal sets."""
    found: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(parts):
        found.setdefault(topic_id, []).append(index)
    return [(topic_id, tuple(indexes)) for topic_id, indexes in found.items()]


OK = ErrorCode.none
