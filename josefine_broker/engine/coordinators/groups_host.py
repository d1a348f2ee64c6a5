"""The host of the group coordinator (`engine/groups/coordinator.py`): it executes its effects, runs
its timers and expires old offsets.

Rules: effects are executed in order, by one loop: a client that gets its answer may send the next
request at once, and the effects of that are appended. A group's record counts once every in-sync
replica has it; the coordinator learns the result of each write. A waiting join or sync is answered
by the coordinator alone; a broker that stops ends it with NOT_COORDINATOR.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.rounds import PER_STEP
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.consumer_groups_host import lose
from josefine_broker.engine.coordinators.offsets_topic import append_deletion, append_records
from josefine_broker.engine.coordinators.share_groups_host import lose_share_members
from josefine_broker.engine.groups.records import encode_key, encode_value
from josefine_broker.engine.groups.values import Effect, JoinAnswer, Lost, Store, SyncAnswer
from josefine_broker.engine.purgatory.promises import AwaitEach, Translated
from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey
from josefine_broker.engine.replicas.committing import answer_when_committed

WAIT_MS_MAX = 24 * 3_600_000
"""The coordinator answers every join and sync by timeouts that clients choose; this limits them
in any case."""


class GroupWait(Translated):
    """A join or sync that waits for the coordinator."""

    __slots__ = ()

    def __init__(
        self,
        ctx: Context,
        translate: Callable[[Any], object],
        unanswered: JoinAnswer | SyncAnswer,
    ) -> None:
        deadline_ms = ctx.clock.monotonic_ms() + WAIT_MS_MAX
        super().__init__(ctx.parked, deadline_ms, translate, unanswered)


class _Alarm(Parked):
    """A timer for the coordinator's next deadline."""

    __slots__ = ("_ctx",)

    outlives_client = True

    def __init__(self, ctx: Context, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self._ctx = ctx

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        """Nothing but the time completes it."""
        return False

    def expire(self, now_ms: int) -> None:
        """Let the coordinator act on what is due, and execute it."""
        ctx = self._ctx
        ctx.clients.groups.alarm = None
        ctx.clients.groups.coordinator.tick(now_ms)
        do_groups_work(ctx)


def answer_of(ctx: Context, wait: GroupWait) -> object:
    """The response if the coordinator has answered already, else the token."""
    do_groups_work(ctx)
    return wait.response if wait.done else wait


def do_groups_work(ctx: Context) -> None:
    """Execute the coordinator's effects until there are none, and set its timer."""
    groups = ctx.clients.groups
    if groups.effects.run(groups.coordinator.take_effects, partial(_execute, ctx)):
        _arm(ctx)


def _execute(ctx: Context, effect: Effect) -> None:
    if isinstance(effect, Store):
        _store(ctx, effect)
    elif isinstance(effect, Lost):
        lose(ctx, effect)
        lose_share_members(ctx, effect)
    else:
        assert isinstance(effect.ticket, GroupWait)
        effect.ticket.answer(effect.answer)


def _store(ctx: Context, effect: Store) -> None:
    """Write a group's record. Raises nothing: a write that failed is reported like a lost one."""
    group_id, write_id, record = effect
    # One reading for the record and for the coordinator, which must compute expiration as its
    # successor will from the record.
    stamped_ms = ctx.clock.now_ms()

    def settle(error: KafkaError | None) -> None:
        """Report the result of the write to the coordinator, whose members wait for it."""
        code = ErrorCode.none if error is None else error.code
        if code is ErrorCode.invalid_commit_offset_size:
            code = ErrorCode.unknown_server_error  # as in Kafka: the group itself is too large
        now_ms = ctx.clock.monotonic_ms()
        ctx.clients.groups.coordinator.stored(group_id, write_id, code, stamped_ms, now_ms)

    entry = encode_key(group_id), encode_value(record, stamped_ms)
    try:
        appended = append_records(ctx, group_id, [entry], stamped_ms, settle)
    except KafkaError as error:
        settle(error)
        return
    if not appended.decide():
        deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.offsets.timeout_ms
        AwaitEach([appended], deadline_ms, lambda: do_groups_work(ctx)).park(ctx.parked)


def _arm(ctx: Context) -> None:
    """Set the timer to the coordinator's next deadline, or leave one that fires earlier."""
    groups = ctx.clients.groups
    wake_ms, alarm = groups.coordinator.wake_at_ms(), groups.alarm
    if wake_ms is None or (alarm is not None and alarm.deadline_ms <= wake_ms):
        return
    # There is one timer for all groups: a heap inside the coordinator knows which are due.
    if alarm is not None:
        ctx.parked.forget(alarm)
    groups.alarm = _Alarm(ctx, wake_ms)
    ctx.parked.park(groups.alarm)


def expire_offsets(ctx: Context) -> Iterator[object]:
    """Periodic: delete expired offsets, and groups that have neither members nor offsets. A
    deletion that cannot be written is repeated in the next round."""
    coordinator = ctx.clients.groups.coordinator
    for at, group_id in enumerate(coordinator.group_ids, 1):
        expired = coordinator.expired(group_id, ctx.clock.now_ms())
        # With its last offset the group goes, too, in one write.
        is_forgotten = coordinator.is_forgotten(group_id, expired)
        if expired or is_forgotten:
            try:
                appended = append_deletion(ctx, group_id, expired, and_group=is_forgotten)
            except KafkaError:
                return
            timeout_ms = ctx.settings.offsets.timeout_ms
            answer_when_committed(ctx, appended, timeout_ms, lambda: None)
        if at % PER_STEP == 0:
            yield None
