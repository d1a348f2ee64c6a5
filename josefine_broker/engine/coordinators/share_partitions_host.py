"""The host of share partitions (`engine/groups/share/partition.py`) on the leader of their
partition: it reads their state, gives records to members, and stores the answers.

Rules: a share partition is in use from the first request of a member on, after its state was read
under this leader's epoch, which fences the leader before. An answer of a member counts when it is
stored. A write that fails is repeated after a while, and its answers wait for the repetition until
`Limits.repeat_ms` has passed; one that is fenced ends this use, and the next request reads the
state again. Members that wait are woken when records come back.

Nothing blocks: reads and writes of the state end in a callback, possibly at once. By then this use
may have ended, so each callback checks first that it is the current one. Times are monotonic
milliseconds.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.coordinators.share_batches import Room, end_for, read_available
from josefine_broker.engine.coordinators.share_dead_letters import (
    LOST,
    WAITING,
    tell_of_letters,
    write_letters,
)
from josefine_broker.engine.coordinators.share_starts import find_start
from josefine_broker.engine.coordinators.share_state_requests import read_state, write_state
from josefine_broker.engine.coordinators.share_states_host import Outcome
from josefine_broker.engine.groups.share.config import ShareConfig
from josefine_broker.engine.groups.share.dead_letters import (
    HOPELESS,
    LETTERS_MAX,
    LETTERS_RETRY_MAX_MS,
    LETTERS_RETRY_MS,
    Origin,
    letters_of,
)
from josefine_broker.engine.groups.share.partition import SharePartition
from josefine_broker.engine.groups.share.repeats import Repeats
from josefine_broker.engine.groups.share.values import (
    NO_START,
    Ack,
    Acquired,
    ShareKey,
    ShareState,
)
from josefine_broker.engine.hosted import Buffer, HostedPartition
from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey

RETRY_MS, RETRY_MAX_MS = 500, 2_000
"""After a read of the state that failed; the first and the longest pause after a write that did."""
TRANSIENT = frozenset({
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
})  # fmt: skip
"""Answers to a write while the share coordinator moves: repeated before any member hears of it, as
Kafka does. Else each election of a coordinator would deliver accepted records again."""
FENCED = frozenset({
    ErrorCode.fenced_leader_epoch, ErrorCode.fenced_state_epoch, ErrorCode.not_leader_or_follower,
    ErrorCode.invalid_request,  # the state was deleted
})  # fmt: skip
"""Answers to a write after which this leader's memory of the share partition is void."""

Settle = Callable[[KafkaError | None], None]
"""Called once with the fate of a member's answers; None: they count."""


@dataclass(slots=True)
class _Reading:
    """The read of the state of one share partition. Mutable."""

    is_open: bool = False
    """It is on its way; no second one is sent."""
    error: KafkaError | None = None
    """Why the last one failed,"""
    retry_ms: int = 0
    """and when it may be tried again."""


class LedShare:
    """One share partition in use, by this broker in one leader epoch. Mutable. It is not used in a
    later epoch: another leader may have changed the state in between."""

    __slots__ = (
        "alarm", "hosted", "is_dropped", "is_lettering", "key", "leader_epoch", "letters",
        "partition", "reading", "tp", "waiting", "writes",
    )  # fmt: skip

    def __init__(self, key: ShareKey, tp: TopicPartition, hosted: HostedPartition) -> None:
        self.key = key
        self.tp = tp
        self.hosted = hosted
        self.leader_epoch: LeaderEpoch = hosted.partition.leader_epoch
        self.partition: SharePartition | None = None
        """None: its state is not read yet."""
        self.is_dropped = False
        """Its use has ended."""
        self.reading = _Reading()
        self.writes = Repeats(RETRY_MS, RETRY_MAX_MS)
        self.waiting: list[tuple[int, Settle]] = []
        """The answers of members that are not stored, by the number of their write."""
        self.is_lettering = False
        """A write of dead letters is open; no second one begins."""
        self.letters = Repeats(LETTERS_RETRY_MS, LETTERS_RETRY_MAX_MS)
        self.alarm: _Alarm | None = None
        """The timer; None: no lock ends, and no write is to be made later."""

    @property
    def origin(self) -> Origin:
        """Where its dead letters come from."""
        return Origin(self.tp.topic, self.tp.partition, self.key.group_id)

    def is_led(self, ctx: Context) -> bool:
        """Whether this broker still leads the partition, in the same epoch."""
        partition = self.hosted.partition
        is_hosted = ctx.hosted.partitions.get(self.tp) is self.hosted
        return is_hosted and partition.is_leader and partition.leader_epoch == self.leader_epoch


class _Alarm(Parked):
    """The timer of one share partition: the next end of a lock, or the next write. It
    outlives the client whose request set it: the locks of all members depend on it."""

    __slots__ = ("_ctx", "_led")

    outlives_client = True

    def __init__(self, ctx: Context, led: LedShare, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self._ctx = ctx
        self._led = led

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        """Nothing but the time completes it."""
        return False

    def expire(self, now_ms: int) -> None:
        ctx, led = self._ctx, self._led
        led.alarm = None
        if ctx.clients.shares.led.get(led.key) is not led:
            return
        if not led.is_led(ctx):
            drop(ctx, led, KafkaError(ErrorCode.not_leader_or_follower))
        elif _expire(ctx, led, now_ms):
            store(ctx, led)
            ctx.parked.wake_group(led.key.group_id, led.tp, now_ms)
        else:
            store(ctx, led)


def _expire(ctx: Context, led: LedShare, now_ms: int) -> bool:
    """Take back the records whose lock has ended; returns whether there were any."""
    late = 0 if led.partition is None else led.partition.expire(now_ms)
    if late:
        ctx.clients.shares.counts.of(led.key.group_id).lock_timeouts += late
    return bool(late)


def led_share(ctx: Context, key: ShareKey, config: ShareConfig) -> LedShare:
    """The share partition, led here; its state may still be on its way. Raises KafkaError:
    UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, or why its state cannot be read."""
    topic = ctx.image.topic_names.get(key.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_id, f"no topic has the id {key.topic_id}")
    hosted = ctx.hosted_partition(topic, key.partition)
    hosted.partition.check_serves(hosted.partition.leader_epoch)
    led: LedShare | None = ctx.clients.shares.led.get(key)
    if led is not None and not led.is_led(ctx):
        drop(ctx, led, KafkaError(ErrorCode.not_leader_or_follower))
        led = None
    # In use from now on: the next leader epoch makes another one.
    if led is None:
        led = LedShare(key, TopicPartition(topic, key.partition), hosted)
        ctx.clients.shares.led[key] = led
    if led.partition is None and not led.reading.is_open:
        if ctx.clock.monotonic_ms() < led.reading.retry_ms:
            assert led.reading.error is not None
            # Each raise of one error adds the caller's frames to it.
            raise led.reading.error.with_traceback(None)
        _read(ctx, led, config)
    if led.partition is not None:
        led.partition.limits = config.limits
    return led


def _read(ctx: Context, led: LedShare, config: ShareConfig) -> None:
    """Read the state, under this leader's epoch."""
    reading = led.reading
    reading.is_open, reading.error = True, None

    def heard(outcome: Outcome) -> None:
        reading.is_open = False
        if ctx.clients.shares.led.get(led.key) is not led or not led.is_led(ctx):
            return
        now_ms = ctx.clock.monotonic_ms()
        state = outcome.state
        if state is None:
            code = outcome.code
            # It has not heard of the topic yet, which this broker leads.
            if code is ErrorCode.unknown_topic_or_partition:
                code = ErrorCode.coordinator_not_available
            reading.error = KafkaError(code, outcome.message or "")
            reading.retry_ms = now_ms + RETRY_MS
            return
        if state.start_offset != NO_START:
            _use(ctx, led, config, state)
            return

        def is_wanted() -> bool:
            return ctx.clients.shares.led.get(led.key) is led and led.is_led(ctx)

        def started(start: int | KafkaError) -> None:
            if not is_wanted():
                return
            reading.is_open = False
            if isinstance(start, int):
                _use(ctx, led, config, state, start)
            else:
                reading.error, reading.retry_ms = start, ctx.clock.monotonic_ms() + RETRY_MS

        reading.is_open = True
        find_start(ctx, led.hosted, config, is_wanted, started)

    read_state(ctx, led.key, led.leader_epoch, heard)


def _use(
    ctx: Context, led: LedShare, config: ShareConfig, state: ShareState, start: int = NO_START
) -> None:
    """Use the share partition from now on. `start`: where a group without a state starts."""
    is_new = start != NO_START
    if is_new:
        state = state._replace(start_offset=start)
    led.partition = SharePartition(state, config.limits)
    _trim(ctx, led, led.partition)
    if is_new:
        # Stored at once: the next leader may see other ends of the log.
        led.partition.touch()
    store(ctx, led)
    ctx.parked.wake_group(led.key.group_id, led.tp, ctx.clock.monotonic_ms())


def _trim(ctx: Context, led: LedShare, shared: SharePartition) -> None:
    """Follow the log start."""
    owed = shared.trim(led.hosted.log.log_start_offset)
    if owed:
        ctx.clients.shares.counts.of(led.key.group_id).dead_letters_lost += owed
        tell_of_letters(ctx, led.origin, LOST, owed, "their records were deleted first")


def drop(ctx: Context, led: LedShare, error: KafkaError) -> None:
    """End the use of a share partition: answers that are not stored are refused. They may count all
    the same, if their write still arrives; a member must be ready for either."""
    shares, led.is_dropped = ctx.clients.shares, True
    if shares.led.get(led.key) is led:
        del shares.led[led.key]
    if led.alarm is not None:
        ctx.parked.forget(led.alarm)
        led.alarm = None
    # Members learn it before others can get their records from another leader.
    waiting, led.waiting = led.waiting, []
    for _, settle in waiting:
        settle(error)
    ctx.parked.wake_group(led.key.group_id, led.tp, ctx.clock.monotonic_ms())


def forget_group(ctx: Context, group_id: str, but: str) -> None:
    """End the use of a group's share partitions, unless other members than this one fetch here: its
    offsets may have been altered since the last one did."""
    if ctx.clients.shares.sessions.has(group_id, but):
        return
    for led in [each for key, each in ctx.clients.shares.led.items() if key.group_id == group_id]:
        # One in use stays: its members lose neither locks nor answers. If its offsets were altered,
        # its next write is fenced, which ends the use.
        partition = led.partition
        if partition is not None and not partition.is_idle:
            continue
        drop(ctx, led, KafkaError(ErrorCode.not_leader_or_follower))


def forget_missing_partitions(ctx: Context) -> None:
    """End the use of the share partitions of deleted topics. To be called when one was deleted."""
    names, error = ctx.image.topic_names, KafkaError(ErrorCode.unknown_topic_id)
    for led in [each for key, each in ctx.clients.shares.led.items() if key.topic_id not in names]:
        drop(ctx, led, error)


def acknowledge(
    ctx: Context, led: LedShare, member_id: str, acks: Sequence[Ack], settle: Settle
) -> None:
    """Take a member's answers; `settle` is called once they count, or with the reason why not.
    Raises KafkaError if they are refused; `settle` is not called then."""
    if led.partition is None:
        raise KafkaError(ErrorCode.invalid_record_state, "nothing is acquired of this partition")
    # The timer may be late. An answer after the end of its lock must not count, even if nobody else
    # has got the record yet, or its fate would depend on the load of the broker.
    now_ms = ctx.clock.monotonic_ms()
    _expire(ctx, led, now_ms)
    write = led.partition.acknowledge(member_id, acks, now_ms)
    counted = ctx.clients.shares.counts.of(led.key.group_id).acknowledged
    for first, last, types in acks:
        for ack_type, count in Counter(types).items():
            records = last - first + 1 if len(types) == 1 else count
            counted[ack_type] = counted.get(ack_type, 0) + records
    if write is None:
        settle(None)
    else:
        led.waiting.append((write, settle))
    store(ctx, led)


def release_all(ctx: Context, key: ShareKey, member_id: str) -> None:
    """A member's session is closed: others get what it has not answered for."""
    led: LedShare | None = ctx.clients.shares.led.get(key)
    if led is None or led.partition is None or not led.is_led(ctx):
        return
    if led.partition.release_all(member_id):
        store(ctx, led)
        ctx.parked.wake_group(led.key.group_id, led.tp, ctx.clock.monotonic_ms())


def acquire(
    ctx: Context, led: LedShare, member_id: str, room: Room, config: ShareConfig
) -> tuple[list[Acquired], Sequence[Buffer]]:
    """Available records for a member, and the batches that hold them. Raises KafkaError.

    The batches are whole, as they are in the log: they may hold records that others have. The
    member processes only those that the ranges of `Acquired` name.
    """
    shared = led.partition
    if shared is None or room.records <= 0 or (room.bytes_max <= 0 and not room.at_least_one):
        return [], ()
    now_ms = ctx.clock.monotonic_ms()
    _expire(ctx, led, now_ms)
    _trim(ctx, led, shared)
    acquired, records = read_available(led.hosted, shared, member_id, room, config, now_ms)
    got = sum(each.last - each.first + 1 for each in acquired)
    ctx.clients.shares.counts.of(led.key.group_id).acquired += got
    store(ctx, led)
    return acquired, records


def has_nothing(ctx: Context, led: LedShare, config: ShareConfig) -> bool:
    """Whether `acquire` would find nothing and change nothing: no record is in flight, and the
    group has read what there is. False where that is not certain."""
    shared = led.partition
    if shared is None or led.is_dropped or not led.is_led(ctx):
        return False
    return shared.is_at_rest and shared.end_offset >= end_for(led.hosted, config)


def store(ctx: Context, led: LedShare) -> None:
    """Write the dead letters that are due, store what has changed, if no write is open, and set the
    timer."""
    shared, now_ms = led.partition, ctx.clock.monotonic_ms()
    if shared is None or ctx.clients.shares.led.get(led.key) is not led:
        return
    _send_letters(ctx, led)
    if shared.must_write and now_ms >= led.writes.retry_ms:
        write_state(ctx, led.key, shared.begin_write(), lambda outcome: _stored(ctx, led, outcome))
    _arm(ctx, led)


def _stored(ctx: Context, led: LedShare, outcome: Outcome) -> None:
    """The result of a write."""
    shared, now_ms = led.partition, ctx.clock.monotonic_ms()
    if shared is None or ctx.clients.shares.led.get(led.key) is not led:
        return
    error = None
    if outcome.code is not ErrorCode.none:
        error = KafkaError(outcome.code, outcome.message or "")
        if outcome.code in FENCED or not led.is_led(ctx):
            drop(ctx, led, KafkaError(ErrorCode.not_leader_or_follower, error.message))
            return
        led.writes.failed(now_ms)
        give_up_ms = led.writes.since_ms + shared.limits.repeat_ms
        if outcome.code in TRANSIENT and led.writes.retry_ms < give_up_ms:
            shared.repeat_write()
            _arm(ctx, led)
            return
    led.writes.ended()
    shared.end_write(is_stored=error is None)
    # Answers that came during the last write wait for the next one.
    # Taken off the list before any is called: one may lead to another answer, and so back here.
    settled = [each for each in led.waiting if each[0] < shared.open_write_from]
    led.waiting = [each for each in led.waiting if each[0] >= shared.open_write_from]
    for _, settle in settled:
        settle(error)
    store(ctx, led)
    ctx.parked.wake_group(led.key.group_id, led.tp, now_ms)


def _send_letters(ctx: Context, led: LedShare) -> None:
    """Begin one write of dead letters, if any are due. The next one begins when this one has been
    answered; after an answer at once the timer begins it, so that no client waits for them all."""
    assert led.partition is not None
    limits = led.partition.limits
    due = led.partition.letters_due(LETTERS_MAX)
    if not due or led.is_lettering or ctx.clock.monotonic_ms() < led.letters.retry_ms:
        return
    letters = letters_of(due, limits.deliveries_max)
    config = config_of(ctx, led.key.group_id).share.dead_letters
    is_now = led.is_lettering = True

    def heard(count: int, error: KafkaError | None) -> None:
        if ctx.clients.shares.led.get(led.key) is not led:
            return
        _lettered(ctx, led, [each.offset for each in letters[:count]], error)
        if not is_now:
            store(ctx, led)
            ctx.parked.wake_group(led.key.group_id, led.tp, ctx.clock.monotonic_ms())

    write_letters(ctx, led.origin, led.hosted, letters, config, heard)
    is_now = False
    if not led.is_lettering:
        led.letters.retry_ms = max(led.letters.retry_ms, ctx.clock.monotonic_ms() + 1)


def _lettered(
    ctx: Context, led: LedShare, offsets: Sequence[int], error: KafkaError | None
) -> None:
    """The result of a write of dead letters: their records are archived, unless it is repeated."""
    assert led.partition is not None
    is_to_repeat = error is not None and error.code not in HOPELESS
    led.is_lettering = False
    if is_to_repeat:
        led.letters.failed(ctx.clock.monotonic_ms())
    else:
        led.letters.ended()
    counts = ctx.clients.shares.counts.of(led.key.group_id)
    if error is not None and (not is_to_repeat or led.letters.tries == 1):
        what, reason = WAITING if is_to_repeat else LOST, f"{error.code.name}: {error.message}"
        tell_of_letters(ctx, led.origin, what, len(offsets), reason)
    if is_to_repeat:
        return
    if error is None:
        counts.dead_letters += len(offsets)
    else:
        counts.dead_letters_lost += len(offsets)
    for offset in offsets:
        led.partition.end_letters(offset, offset)


def _arm(ctx: Context, led: LedShare) -> None:
    """Set the timer to the next end of a lock, or to the next write."""
    assert led.partition is not None
    due = [at for at in (led.partition.wake_at_ms(),) if at is not None]
    if led.partition.must_write:
        due.append(led.writes.retry_ms)
    if not led.is_lettering and led.partition.letters_due(1):
        due.append(led.letters.retry_ms)
    if not due or (led.alarm is not None and led.alarm.deadline_ms <= min(due)):
        return
    if led.alarm is not None:
        ctx.parked.forget(led.alarm)
    led.alarm = _Alarm(ctx, led, min(due))
    ctx.parked.park(led.alarm)
