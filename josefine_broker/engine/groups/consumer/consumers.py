"""The consumer-protocol groups of a broker, and the deadlines of their members.

Rules: each accepted heartbeat renews the session, and so does a new coordinator. The time to revoke
partitions starts when the member is asked to. See `groups/consumer/coordinated.py`.
"""

from collections.abc import Iterable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.coordinated import CoordinatedGroups, Place
from josefine_broker.engine.groups.consumer.heartbeats import check, heartbeat
from josefine_broker.engine.groups.consumer.leaving import without
from josefine_broker.engine.groups.consumer.patterns import matches
from josefine_broker.engine.groups.consumer.states import ConsumerGroupState, ConsumerMemberState
from josefine_broker.engine.groups.consumer.subscriptions import Topics
from josefine_broker.engine.groups.consumer.values import (
    JOINING_EPOCH,
    Beat,
    BeatAnswer,
    ConsumerGroup,
    ConsumerMember,
    Settings,
)

RESERVED_MAX = 10_000
"""Ids that were sent to new members which have not returned with them."""


class ConsumerGroups(CoordinatedGroups[ConsumerGroup]):
    """The groups by id, and the deadlines of their members. Mutable."""

    __slots__ = ("_rejoin_by", "_reserved", "_revoked_by")

    def __init__(self, session_timeout_ms: int, size_max: int) -> None:
        super().__init__(session_timeout_ms, size_max)
        self._revoked_by: dict[Place, int] = {}
        """When a member must have revoked the partitions that it was asked to."""
        self._rejoin_by: dict[Place, int] = {}
        """When a classic member that was called must have joined again."""
        self._reserved: dict[Place, int] = {}
        """Ids that were sent to new classic members which have not joined with them yet →
        deadline."""

    # Requests of members.

    def beat(
        self, group_id: str, beat: Beat, topics: Topics, upgraded: ConsumerGroup | None = None
    ) -> tuple[ConsumerGroup, BeatAnswer]:
        """How a heartbeat changes its group, and its answer. Raises the KafkaErrors of `heartbeat`;
        also UNKNOWN_MEMBER_ID for an unknown group, after which the member joins again (clients
        give up after Kafka's GROUP_ID_NOT_FOUND). `upgraded`: the consumer group that a classic one
        becomes by this."""
        check(beat)
        group = upgraded or self._groups.get(group_id)
        if group is None:
            if beat.epoch != JOINING_EPOCH:
                raise KafkaError(ErrorCode.unknown_member_id, f"group {group_id} does not exist")
            group = ConsumerGroup(group_id=group_id)
        is_news = self.is_news(group_id, topics)
        return heartbeat(group, beat, topics, self.settings, is_news=is_news)

    def is_idle_beat(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        topics: Topics,
        now_ms: int,
    ) -> bool:
        """Whether a heartbeat that reports only who sends it, in which epoch, changes nothing and
        gets no assignment. Then it has renewed the session, as `beat` and `beaten` would; else
        nothing was done, and they have the result."""
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        return (
            group is not None
            and member is not None
            and epoch == member.epoch == group.target_epoch == group.epoch
            and member.state is ConsumerMemberState.STABLE
            and member.classic is None
            and (instance_id is None or instance_id == member.instance_id)
            and self._seen.get(group_id) is topics
            and self._renewed((group_id, member_id), now_ms + self.timeout_ms_of(group_id))
        )

    @property
    def settings(self) -> Settings:
        return Settings(size_max=self.size_max)

    def beaten(self, group_id: str, member_id: str, topics: Topics, now_ms: int) -> None:
        """An accepted heartbeat: its group is kept, its member's session renewed."""
        group = self._groups[group_id]
        self._seen[group_id] = topics
        member = group.members.get(member_id)
        if member is not None:
            place = group_id, member_id
            self._arm(self._sessions, place, now_ms + self._session_ms(group_id, member))

    def _session_ms(self, group_id: str, member: ConsumerMember) -> int:
        side = member.classic
        return self.timeout_ms_of(group_id) if side is None else side.session_timeout_ms

    # Classic members.

    def called(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member was called to join again: its rebalance timeout starts with the first call."""
        place = group_id, member_id
        if place not in self._rejoin_by:
            member = self._groups[group_id].members[member_id]
            self._arm(self._rejoin_by, place, now_ms + member.rebalance_timeout_ms)

    def joined(self, group_id: str, member_id: str) -> None:
        """A called member has joined again."""
        self._rejoin_by.pop((group_id, member_id), None)

    def reserve(self, group_id: str, member_id: str, until_ms: int) -> None:
        """Reserve an id. Above `RESERVED_MAX` the oldest is forgotten: its client gets another."""
        if len(self._reserved) >= RESERVED_MAX:
            del self._reserved[next(iter(self._reserved))]
        self._reserved[group_id, member_id] = until_ms

    def is_reserved(self, group_id: str, member_id: str, now_ms: int) -> bool:
        """Take a reserved id; returns whether it was reserved and its deadline has not passed."""
        return self._reserved.pop((group_id, member_id), now_ms) > now_ms

    def may_commit(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int
    ) -> ErrorCode:
        """Whether offsets may be committed or fetched with this identity. A group without members
        accepts commits without an epoch: from admin clients."""
        if epoch < 0 and group.state is ConsumerGroupState.EMPTY:
            return ErrorCode.none
        member = group.members.get(member_id)
        if member is None or (instance_id is not None and member.instance_id != instance_id):
            return ErrorCode.unknown_member_id
        if epoch == member.epoch:
            return ErrorCode.none
        is_classic = member.classic is not None
        return ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch

    def reads(self, group_id: str, topic: str) -> bool:
        """Whether a member of the group reads the topic."""
        group = self._groups.get(group_id)
        return group is not None and any(
            topic in each.topics or (each.regex and matches(each.regex, topic))
            for each in group.members.values()
        )

    def keep(self, group: ConsumerGroup, now_ms: int) -> None:
        """Replace the group by this state, which is in the log."""
        group_id, before = group.group_id, self._replace(group)
        for member_id, member in group.members.items():
            known = None if before is None else before.members.get(member_id)
            if known is member:
                continue
            place = group_id, member_id
            if known is None:
                self._arm(self._sessions, place, now_ms + self._session_ms(group_id, member))
            if member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
                self._revoked_by.pop(place, None)
            elif known is None or known.revoking != member.revoking:
                self._arm(self._revoked_by, place, now_ms + member.rebalance_timeout_ms)

    def _deadline_ms(self, place: Place) -> int | None:
        tables = self._sessions, self._revoked_by, self._rejoin_by
        return min((each[place] for each in tables if place in each), default=None)

    def _forget(self, place: Place) -> None:
        super()._forget(place)
        self._revoked_by.pop(place, None)
        self._rejoin_by.pop(place, None)


def lost(group: ConsumerGroup, member_ids: Iterable[str]) -> ConsumerGroup:
    """The group without its lost members."""
    return without(group, set(member_ids))
