"""The consumer-protocol groups of a broker, and the session deadlines of their members.

The host asks how a request changes a group (`beat`), writes the records, and returns the group
(`keep`) once they are in its log. So a group is never ahead of the log, and a refused write has no
effect. Answers wait until the records are committed. Times are monotonic milliseconds.

Rules: each accepted heartbeat renews the session, and so does a new coordinator. The time to revoke
partitions starts when the member is asked to.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from josefine_broker.base.errors import ErrorCode, KafkaError
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

Place = tuple[str, str]
"""Group id and member id."""
RESERVED_MAX = 10_000
"""Ids that were sent to new members which have not returned with them."""
AGAIN_MS = 1_000
"""Delay before a failed write is repeated."""


class ConsumerGroups:
    """The groups by id, and the deadlines of their members. Mutable."""

    __slots__ = (
        "_armed", "_due", "_ends", "_groups", "_rejoin_by", "_reserved", "_revoked_by", "_seen",
        "_sessions", "session_timeout_ms", "size_max",
    )  # fmt: skip

    def __init__(self, session_timeout_ms: int, size_max: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.size_max = size_max
        self._groups: dict[str, ConsumerGroup] = {}
        self._ends: dict[str, int] = {}
        """The end offset of a group's last batch in its partition's log."""
        self._sessions: dict[Place, int] = {}
        self._revoked_by: dict[Place, int] = {}
        """When a member must have revoked the partitions that it was asked to."""
        self._rejoin_by: dict[Place, int] = {}
        """When a classic member that was called must have joined again."""
        self._reserved: dict[Place, int] = {}
        """Ids that were sent to new classic members which have not joined with them yet →
        deadline."""
        self._seen: dict[str, Topics] = {}
        """The topics at a group's last heartbeat."""
        self._due: list[tuple[int, Place]] = []
        """When a member may be due: one valid entry each (`_armed`), the others are stale."""
        self._armed: dict[Place, int] = {}

    @property
    def group_ids(self) -> list[str]:
        return sorted(self._groups)

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self._groups.get(group_id)

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

    def is_news(self, group_id: str, topics: Topics) -> bool:
        """Whether the topics may have changed since the group's last heartbeat."""
        return self._seen.get(group_id) is not topics

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
            self._arm(self._sessions, place, now_ms + self._session_ms(member))

    def _session_ms(self, member: ConsumerMember) -> int:
        side = member.classic
        return self.session_timeout_ms if side is None else side.session_timeout_ms

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

    # The log.

    def wrote(self, group_id: str, end_offset: int) -> None:
        """A batch of the group is in the log up to here; it counts when that is committed."""
        self._ends[group_id] = end_offset

    def end_offset(self, group_id: str) -> int:
        """The offset up to which the log must be committed for the group's state; 0: loaded."""
        return self._ends.get(group_id, 0)

    def keep(self, group: ConsumerGroup, now_ms: int) -> None:
        """Replace the group by this state, which is in the log."""
        group_id = group.group_id
        before = self._groups.get(group_id)
        self._groups[group_id] = group
        for member_id in () if before is None else before.members:
            if member_id not in group.members:
                self._forget((group_id, member_id))
        for member_id, member in group.members.items():
            known = None if before is None else before.members.get(member_id)
            if known is member:
                continue
            place = group_id, member_id
            if known is None:
                self._arm(self._sessions, place, now_ms + self._session_ms(member))
            if member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
                self._revoked_by.pop(place, None)
            elif known is None or known.revoking != member.revoking:
                self._arm(self._revoked_by, place, now_ms + member.rebalance_timeout_ms)

    def drop(self, group_id: str) -> None:
        """Remove a group that is deleted in the log, or that another broker coordinates."""
        group = self._groups.pop(group_id, None)
        self._seen.pop(group_id, None)
        self._ends.pop(group_id, None)
        for member_id in () if group is None else group.members:
            self._forget((group_id, member_id))

    def load(self, groups: Mapping[str, ConsumerGroup], now_ms: int) -> None:
        """Coordinate these groups from now on."""
        for group in groups.values():
            self.drop(group.group_id)
            self.keep(group, now_ms)

    def unload(self, is_gone: Callable[[str], bool]) -> None:
        """Stop coordinating these groups."""
        for group_id in [each for each in self._groups if is_gone(each)]:
            self.drop(group_id)

    # Timers.

    def wake_at_ms(self) -> int | None:
        while self._due and self._armed.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def late(self, now_ms: int) -> list[tuple[ConsumerGroup, list[str]]]:
        """Each group with its lost members: their session expired, or they did not revoke or rejoin
        in time. Members that remain are reported again after a while."""
        found: dict[str, list[str]] = {}
        while (at_ms := self.wake_at_ms()) is not None and at_ms <= now_ms:
            _, place = heappop(self._due)
            del self._armed[place]
            deadline_ms = self._deadline_ms(place)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._wake(place, deadline_ms)
                continue
            self._wake(place, now_ms + AGAIN_MS)
            found.setdefault(place[0], []).append(place[1])
        return [(self._groups[group_id], lost) for group_id, lost in found.items()]

    def _deadline_ms(self, place: Place) -> int | None:
        tables = self._sessions, self._revoked_by, self._rejoin_by
        return min((each[place] for each in tables if place in each), default=None)

    def _arm(self, table: dict[Place, int], place: Place, at_ms: int) -> None:
        """Set a deadline. One that only moves later costs nothing: the member is then checked too
        early once in a while."""
        table[place] = at_ms
        self._wake(place, at_ms)

    def _wake(self, place: Place, at_ms: int) -> None:
        armed_ms = self._armed.get(place)
        if armed_ms is None or at_ms < armed_ms:
            self._armed[place] = at_ms
            heappush(self._due, (at_ms, place))

    def _forget(self, place: Place) -> None:
        for table in (self._sessions, self._revoked_by, self._rejoin_by, self._armed):
            table.pop(place, None)


def lost(group: ConsumerGroup, member_ids: Iterable[str]) -> ConsumerGroup:
    """The group without its lost members."""
    return without(group, set(member_ids))
