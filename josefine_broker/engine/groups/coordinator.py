"""The group coordinator of a broker: it routes requests to their group, and runs due timers.

The host calls an input, then executes `take_effects` in order; each `Store` is answered by
`stored`, whatever the result. It calls `tick` at `wake_at_ms`, or later. There is one coordinator
per broker; the host decides which groups it has (`load`, `unload`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups import joining, migrating, rebalancing, retention, syncing
from josefine_broker.engine.groups.consumer.consumers import ConsumerGroups
from josefine_broker.engine.groups.consumer.states import ConsumerGroupState
from josefine_broker.engine.groups.consumer.subscriptions import Topics
from josefine_broker.engine.groups.consumer.values import ConsumerGroup
from josefine_broker.engine.groups.group import Group, GroupCounts
from josefine_broker.engine.groups.offsets import GroupOffsets
from josefine_broker.engine.groups.records import NO_TIMESTAMP_MS, StoredGroup
from josefine_broker.engine.groups.share.group import ShareGroup
from josefine_broker.engine.groups.share.groups import ShareGroups
from josefine_broker.engine.groups.share.states import ShareGroupState
from josefine_broker.engine.groups.states import GroupEvent, GroupState
from josefine_broker.engine.groups.values import (
    CONSUMER_PROTOCOL_TYPE,
    NO_MEMBER,
    Answer,
    Effect,
    GroupRecord,
    GroupSettings,
    Identity,
    Join,
    JoinAnswer,
    Lost,
    Sync,
    SyncAnswer,
    Ticket,
)
from josefine_broker.engine.groups.views import (
    SHARE,
    TEXT,
    GroupView,
    restored,
    view_of_classic,
    view_of_consumer,
    view_of_share,
    view_of_text,
)
from josefine_broker.engine.partition.fetch_session import Rng


class GroupCoordinator:
    """The groups, their committed offsets and pending effects. Mutable."""

    __slots__ = (
        "_armed", "_effects", "_groups", "_wakes", "_write_ids", "consumers", "counts", "offsets",
        "settings", "shares",
    )  # fmt: skip

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.offsets = GroupOffsets()
        self.consumers = ConsumerGroups(
            self.settings.consumer_session_timeout_ms, self.settings.size_max
        )
        """Groups of the consumer protocol; a group id is in here, in `shares` or in `_groups`."""
        self.shares = ShareGroups(self.settings.consumer_session_timeout_ms, self.settings.size_max)
        """Groups whose members share partitions."""
        self.counts = GroupCounts()
        self._groups: dict[str, Group] = {}
        self._effects: list[Effect] = []
        self._wakes: list[tuple[int, str]] = []
        """When a group is due: one valid entry each (`_armed`), the others are stale."""
        self._armed: dict[str, int] = {}
        self._write_ids = count(1)

    def __len__(self) -> int:
        """The number of groups, including those of simple consumers."""
        return len(self.group_ids)

    # Requests of members.

    def join(self, group_id: str, request: Join, ticket: Ticket, now_ms: int, rng: Rng) -> None:
        """JoinGroup, answered by an effect, now or later."""
        settings = self.settings
        timeout_ms = request.session_timeout_ms
        group = self._groups.get(group_id)
        if not settings.session_timeout_min_ms <= timeout_ms <= settings.session_timeout_max_ms:
            code = ErrorCode.invalid_session_timeout
        # Members of the text protocol hold partitions without a generation: the two cannot share a
        # group.
        elif self.offsets.holders(group_id) or self.shares.get(group_id) is not None:
            code = ErrorCode.inconsistent_group_protocol
        # The coordinator has moved or the group expired: the client must join as a new member.
        elif group is None and request.member_id != NO_MEMBER:
            code = ErrorCode.unknown_member_id
        else:
            if group is None:
                group = self._groups[group_id] = Group(group_id, self._write_ids, self.counts)
            joining.join(group, request, ticket, settings, now_ms, rng)
            self._after(group)
            return
        refusal = JoinAnswer(error=code, member_id=request.member_id)
        self._effects.append(Answer(ticket, refusal))

    def sync(self, group_id: str, request: Sync, ticket: Ticket, now_ms: int) -> None:
        """SyncGroup, answered by an effect, now or later.

        A group that is unknown here (it has expired) gets UNKNOWN_MEMBER_ID: the client then joins
        as a new member.
        """
        group = self._groups.get(group_id)
        if group is None:
            self._effects.append(Answer(ticket, SyncAnswer(error=ErrorCode.unknown_member_id)))
            return
        syncing.sync(group, request, ticket, now_ms)
        self._after(group)

    def heartbeat(
        self, group_id: str, identity: Identity, generation: int, now_ms: int
    ) -> ErrorCode:
        """Whether the member still belongs to this generation; REBALANCE_IN_PROGRESS calls it to
        join."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.unknown_member_id
        return syncing.heartbeat(group, identity, generation, now_ms)

    def leave(self, group_id: str, leaving: Sequence[Identity], now_ms: int) -> list[ErrorCode]:
        """LeaveGroup: the result for each member."""
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.unknown_member_id] * len(leaving)
        codes = syncing.leave(group, leaving, self.settings, now_ms)
        self._after(group)
        return codes

    def may_commit(
        self, group_id: str, identity: Identity, generation: int, now_ms: int
    ) -> ErrorCode:
        """Whether offsets may be committed by a client with this identity; `generation` is a
        member epoch in a consumer group. GROUP_ID_NOT_FOUND: a generation of an unknown group."""
        consumer = self.consumers.get(group_id)
        if consumer is not None:
            return self.consumers.may_commit(consumer, *identity, generation)
        if self.shares.get(group_id) is not None:
            return ErrorCode.group_id_not_found  # it has offsets of its own
        # Subscriptions of the text protocol own these offsets, and no Kafka client is one of them.
        if self.offsets.holders(group_id):
            return ErrorCode.unknown_member_id
        # A consumer that assigns partitions itself commits without a group.
        if generation < 0 and group_id not in self._groups:
            return ErrorCode.none  # of a simple consumer, or a new group
        group = self._find(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        return syncing.may_commit(group, identity, generation, now_ms)

    # Requests of admin clients.

    @property
    def group_ids(self) -> list[str]:
        """Every group, including those of simple consumers, by name."""
        others = *self.consumers.group_ids, *self.shares.group_ids
        return sorted({*self._groups, *self.offsets.group_ids, *others})

    def views(self) -> list[GroupView]:
        """Every group, by name."""
        return [view for each in self.group_ids if (view := self.view(each)) is not None]

    def view(self, group_id: str) -> GroupView | None:
        """One group as admin clients see it; None: there is no such group."""
        consumer = self.consumers.get(group_id)
        if consumer is not None:
            return view_of_consumer(consumer)
        share = self.shares.get(group_id)
        if share is not None:
            return view_of_share(share)
        holders = self.offsets.holders(group_id)
        if holders:
            return view_of_text(group_id, holders)
        group = self._find(group_id)
        return None if group is None else view_of_classic(group)

    def may_hold(self, group_id: str) -> bool:
        """Whether subscriptions of the text protocol may hold partitions in that group: it must
        have no member of another protocol."""
        view = self.view(group_id)
        if view is None or view.group_type == TEXT:
            return True
        return not view.size and view.group_type != SHARE

    def upgraded(self, group_id: str, topics: Topics) -> ConsumerGroup | None:
        """The consumer group that a classic group of that name becomes when a member of the
        consumer protocol joins it; None: there is no such group. Raises KafkaError:
        INCONSISTENT_GROUP_PROTOCOL if its members do not allow that, or if it belongs to the text
        protocol; and the errors of `migrating.upgraded`."""
        if self.offsets.holders(group_id):
            message = f"group {group_id} has subscriptions of the text protocol"
            raise KafkaError(ErrorCode.inconsistent_group_protocol, message)
        if self.shares.get(group_id) is not None:
            message = f"Group {group_id} is not a consumer group."
            raise KafkaError(ErrorCode.group_id_not_found, message)
        group = self._groups.get(group_id)
        if group is None:
            return None
        # An id that was given to a client but not used yet counts as a member to come.
        is_empty = group.state is GroupState.EMPTY and not group.reserved
        if not is_empty and not self.settings.upgrades_classic:
            message = f"group {group_id} has members of the classic protocol"
            raise KafkaError(ErrorCode.inconsistent_group_protocol, message)
        return migrating.emptied(group) if is_empty else migrating.upgraded(group, topics)

    def begin_classic(
        self, group_id: str, record: GroupRecord, gone: Iterable[str], now_ms: int
    ) -> None:
        """A consumer group became a classic one. `record` is in the log, `gone` are the members
        that have left since. The others are called to join."""
        stored = StoredGroup(record, NO_TIMESTAMP_MS)
        group = restored(group_id, self._write_ids, self.counts, stored)
        self._groups[group_id] = group
        for member in group.members.values():
            group.heard(member, now_ms)
        # After `heard`: all of them had a session in the group before.
        for member_id in gone:
            group.remove(member_id)
        if group.members:
            rebalancing.prepare(group, self.settings, now_ms)
            self._after(group)

    def may_delete(self, group_id: str) -> ErrorCode:
        """Whether a group may be deleted with its offsets: it must have no members.

        KIP-229. A group with members would commit again, and so bring back what was deleted.
        """
        view = self.view(group_id)
        if view is None:
            return ErrorCode.group_id_not_found
        is_empty = view.state in (
            GroupState.EMPTY, ConsumerGroupState.EMPTY, ShareGroupState.EMPTY
        )  # fmt: skip
        return ErrorCode.none if is_empty else ErrorCode.non_empty_group

    def delete(self, group_id: str) -> None:
        """Remove a group that is deleted in the log. Its offsets are removed when that is
        committed, by `offsets.store`."""
        self.consumers.drop(group_id)
        self.shares.drop(group_id)
        group = self._groups.get(group_id)
        if group is not None:
            self._drop(group, ErrorCode.unknown_member_id)

    def may_delete_offsets(self, group_id: str) -> ErrorCode:
        """Whether single offsets may be deleted: of running consumers too, except for topics that
        they read (`is_subscribed`)."""
        if self.consumers.get(group_id) is not None:
            return ErrorCode.none
        group = self._find(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        # KIP-496. Only subscriptions of consumers can be read here: members of another type may use
        # any topic.
        if group.state is GroupState.EMPTY or group.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.none
        return ErrorCode.non_empty_group

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether a member reads the topic; True also if a subscription cannot be parsed."""
        if self.consumers.get(group_id) is not None:
            return self.consumers.reads(group_id, topic)
        group = self._groups.get(group_id)
        if group is None or not group.members:
            return False
        topics = retention.subscribed(group)
        return topics is None or topic in topics

    # Expiration of offsets.

    def expired(self, group_id: str, wall_ms: int) -> list[TopicPartition]:
        """The expired offsets of a group."""
        committed = self.offsets.committed(group_id)
        if self.consumers.get(group_id) is not None:
            kept_ms = self.settings.offsets_retention_ms
            # KIP-211: what a member reads never expires, however old the commit: an idle topic has
            # no newer one.
            old = retention.old(committed, kept_ms, wall_ms)
            return [tp for tp in old if not self.consumers.reads(group_id, tp.topic)]
        group = self._find(group_id)
        if group is None:
            return []
        return retention.expired(group, committed, self.settings.offsets_retention_ms, wall_ms)

    def is_forgotten(self, group_id: str, expired: Sequence[TopicPartition]) -> bool:
        """Whether the group can be removed together with these offsets: nothing else needs it."""
        consumer = self.consumers.get(group_id)
        if consumer is not None:
            is_all = len(expired) == len(self.offsets.committed(group_id))
            return is_all and consumer.state is ConsumerGroupState.EMPTY
        group = self._groups.get(group_id)
        # A member that is about to join, or a write in flight, needs the generation: a group that
        # is made again would count from 0, and its members could be taken for those of an older
        # one.
        if group is None or group.reserved or group.writes:
            return False
        is_empty = group.state is GroupState.EMPTY
        return is_empty and len(expired) == len(self.offsets.committed(group_id))

    # Loading and storing.

    def load(
        self,
        stored: Mapping[str, StoredGroup],
        now_ms: int,
        consumers: Mapping[str, ConsumerGroup] = MappingProxyType({}),
        shares: Mapping[str, ShareGroup] = MappingProxyType({}),
    ) -> None:
        """Coordinate these groups from now on; each member gets a full session."""
        # A full session for each: how much of the old one was left is known to the old coordinator
        # alone.
        self.consumers.load(consumers, now_ms)
        self.shares.load(shares, now_ms)
        for group_id, each in stored.items():
            group = self._groups[group_id] = restored(group_id, self._write_ids, self.counts, each)
            for member in group.members.values():
                group.heard(member, now_ms)
            # The group rebalances: members above the limit cannot join again.
            if len(group.members) > self.settings.size_max:  # the limit was lowered
                rebalancing.prepare(group, self.settings, now_ms)
            self._after(group)

    def unload(self, is_gone: Callable[[str], bool]) -> None:
        """Stop coordinating these groups: waiting requests get NOT_COORDINATOR."""
        for group_id in [each for each in self._groups if is_gone(each)]:
            self._drop(self._groups[group_id], ErrorCode.not_coordinator)
        self.consumers.unload(is_gone)
        self.shares.unload(is_gone)
        self.offsets.forget(is_gone)

    def records(self) -> Iterable[tuple[str, GroupRecord, int]]:
        """The current record of each group, with its time. To be called right after a `load`."""
        for group_id, group in self._groups.items():
            stamped_ms = NO_TIMESTAMP_MS if group.empty_since_ms is None else group.empty_since_ms
            yield group_id, group.record(), stamped_ms

    def stored(
        self, group_id: str, write_id: int, error: ErrorCode, stamped_ms: int, now_ms: int
    ) -> None:
        """The result of a `Store`; `stamped_ms` is the wall clock time in its record."""
        group = self._groups.get(group_id)
        if group is not None:
            rebalancing.stored(group, self.settings, write_id, error, stamped_ms, now_ms)
            self._after(group)

    # Timers and effects.

    def wake_at_ms(self) -> int | None:
        """When `tick` is due; None: nothing waits for the time."""
        # Entries of groups that were armed earlier stay in the heap: to remove one would cost a
        # search.
        while self._wakes and self._armed.get(self._wakes[0][1]) != self._wakes[0][0]:
            heappop(self._wakes)
        times = [self._wakes[0][0]] if self._wakes else []
        for at_ms in (self.consumers.wake_at_ms(), self.shares.wake_at_ms()):
            if at_ms is not None:
                times.append(at_ms)
        return min(times, default=None)

    def tick(self, now_ms: int) -> None:
        """Run what is due: lost consumer sessions, and the timers of classic groups."""
        for consumer, gone in self.consumers.late(now_ms):
            self._effects.append(Lost(consumer.group_id, tuple(gone)))
        for share, gone in self.shares.late(now_ms):
            self._effects.append(Lost(share.group_id, tuple(gone)))
        while self._wakes and self._wakes[0][0] <= now_ms:
            at_ms, group_id = heappop(self._wakes)
            # Stale: the group was armed earlier or dropped since.
            if self._armed.get(group_id) != at_ms:
                continue
            del self._armed[group_id]
            group = self._groups[group_id]
            rebalancing.tick(group, self.settings, now_ms)
            # Later than now: a group that is due again at once must not keep this loop from ending.
            self._after(group, least_ms=now_ms + 1)

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in the order in which they must be executed."""
        effects, self._effects = self._effects, []
        return effects

    def _after(self, group: Group, least_ms: int = 0) -> None:
        """Collect the group's effects, and set its timer. A deadline that only moves later, as with
        each heartbeat, costs nothing: the group is then woken too early once in a while."""
        self._effects += group.effects
        group.effects.clear()
        # A group that never had a generation and has nothing in the log is only memory.
        is_nothing = group.state is GroupState.EMPTY and not group.generation and not group.writes
        if is_nothing and not group.reserved:
            self._drop(group, ErrorCode.unknown_member_id)
            return
        at_ms = group.wake_at_ms()
        armed_ms = self._armed.get(group.group_id)
        if at_ms is not None and (armed_ms is None or at_ms < armed_ms):
            at_ms = max(at_ms, least_ms)
            self._armed[group.group_id] = at_ms
            heappush(self._wakes, (at_ms, group.group_id))

    def _drop(self, group: Group, error: ErrorCode) -> None:
        """Remove the group and answer the requests that wait in it."""
        for member in group.members.values():
            group.answer_error(member, error)
        group.on(GroupEvent.REMOVED)
        self._effects += group.effects
        del self._groups[group.group_id]
        self._armed.pop(group.group_id, None)

    def _find(self, group_id: str) -> Group | None:
        """The group; for offsets of a simple consumer, an empty group."""
        group = self._groups.get(group_id)
        if group is None and self.offsets.committed(group_id):
            return Group(group_id, self._write_ids, self.counts)
        return group
