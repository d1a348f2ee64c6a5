"""The host of groups of the consumer protocol (`engine/groups/consumer/`): it writes their changes
to `__consumer_offsets`, and answers when these are committed.

Rules: each change of a group is one batch, and takes effect in memory once the batch is in the
leader's log, so that log and memory are equal whatever happens to both. No answer contains anything
that is not on every in-sync replica, including changes that other members caused. A group id
belongs to a classic group or to a consumer group. It changes protocol while the group is empty, or
together with its members (`groups/migrating.py`), and its committed offsets stay.
"""

from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import Entry, coordinators
from josefine_broker.engine.coordinators.offsets_topic import append_records, coordinator_of
from josefine_broker.engine.groups.consumer.consumers import lost
from josefine_broker.engine.groups.consumer.records import changes
from josefine_broker.engine.groups.consumer.states import ConsumerGroupEvent, ConsumerGroupState
from josefine_broker.engine.groups.consumer.values import (
    JOINING_EPOCH,
    Beat,
    BeatAnswer,
    ConsumerGroup,
)
from josefine_broker.engine.groups.migrating import downgraded, empty_record
from josefine_broker.engine.groups.records import encode_key as encode_classic_key
from josefine_broker.engine.groups.records import encode_value
from josefine_broker.engine.groups.values import Lost
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed


def heartbeat(
    ctx: Context,
    group_id: str,
    beat: Beat,
    build: Callable[[BeatAnswer], object],
    fail: Callable[[KafkaError], object],
) -> object:
    """Handle one heartbeat: returns the answer of `build` or `fail`, or a token that gets it when
    the change is committed. Raises KafkaError when it is refused, or nothing could be written."""
    coordinator = ctx.clients.groups.coordinator
    consumers = coordinator.consumers
    before, upgraded = consumers.get(group_id), None
    topics = ctx.image.topics
    # Only a join converts a group: a heartbeat of a member that is unknown here must fail.
    if before is None and beat.epoch == JOINING_EPOCH:
        upgraded = coordinator.upgraded(group_id, topics)
    after, answer = consumers.beat(group_id, beat, topics, upgraded)
    if before is not None and _is_left_to_classic(ctx, before, after):
        end_offset = _leave_to_classic(ctx, before, after)
        return _told(ctx, group_id, end_offset, answer, build, fail)
    # Written before it is kept: if the append fails, the group in memory has not changed, and the
    # member repeats its heartbeat.
    entries = changes(before, after)
    if upgraded is not None:
        # One batch deletes the classic group and creates this one: a crash leaves either, never
        # both.
        entries.insert(0, (encode_classic_key(group_id), None))
    if entries:
        write(ctx, group_id, entries)
        if upgraded is not None:
            coordinator.delete(group_id)
        consumers.keep(after, ctx.clock.monotonic_ms())
        coordinator.counts.rebalances += before is None or before.epoch != after.epoch
    consumers.beaten(group_id, answer.member_id, topics, ctx.clock.monotonic_ms())
    return _told(ctx, group_id, consumers.end_offset(group_id), answer, build, fail)


def _told(
    ctx: Context,
    group_id: str,
    end_offset: int,
    answer: BeatAnswer,
    build: Callable[[BeatAnswer], object],
    fail: Callable[[KafkaError], object],
) -> object:
    """Answer when the log is committed up to `end_offset`.

    Also for a heartbeat that changed nothing: its answer may rest on an earlier change that is
    not committed, which a new coordinator would not know.
    """
    outcome: list[KafkaError | None] = []

    def settle(error: KafkaError | None) -> None:
        outcome.append(error and coordinators(error))

    def told() -> object:
        (error,) = outcome
        return build(answer) if error is None else fail(error)

    tp, hosted = coordinator_of(ctx, group_id)
    written = Appended(ctx, tp, hosted, end_offset, settle)
    return answer_when_committed(ctx, [written], ctx.settings.offsets.timeout_ms, told)


def write(ctx: Context, group_id: str, entries: list[Entry]) -> None:
    """Append the entries. Raises KafkaError when nothing was written."""
    try:
        appended = append_records(ctx, group_id, entries, ctx.clock.now_ms(), lambda error: None)
    except KafkaError as error:
        if error.code is ErrorCode.invalid_commit_offset_size:
            # As in Kafka: the group itself is too large.
            raise KafkaError(ErrorCode.unknown_server_error, error.message) from error
        raise
    ctx.clients.groups.coordinator.consumers.wrote(group_id, appended.end_offset)


def lose(ctx: Context, effect: Lost) -> None:
    """Remove lost members. Raises nothing: a write that fails is repeated later."""
    consumers = ctx.clients.groups.coordinator.consumers
    before = consumers.get(effect.group_id)
    if before is None:
        return
    after = lost(before, effect.member_ids)
    try:
        if _is_left_to_classic(ctx, before, after):
            _leave_to_classic(ctx, before, after)
            ctx.clients.groups.coordinator.counts.members_lost += len(effect.member_ids)
            return
        write(ctx, effect.group_id, changes(before, after))
    except KafkaError:
        return
    ctx.clients.groups.coordinator.counts.members_lost += len(effect.member_ids)
    consumers.keep(after, ctx.clock.monotonic_ms())


def _is_left_to_classic(ctx: Context, before: ConsumerGroup, after: ConsumerGroup) -> bool:
    """Whether the last consumer-protocol members left, and the rest may become a classic group."""
    return (
        ctx.clients.groups.coordinator.settings.downgrades_consumer
        and bool(after.members)
        and all(each.classic is not None for each in after.members.values())
        and any(each.classic is None for each in before.members.values())
    )


def _leave_to_classic(ctx: Context, before: ConsumerGroup, after: ConsumerGroup) -> int:
    """Convert the remaining members to a classic group; returns the end offset of that change.
    Raises KafkaError when nothing was written."""
    coordinator, group_id = ctx.clients.groups.coordinator, before.group_id
    consumers = coordinator.consumers
    record = downgraded(before, ctx.image.topic_names, consumers.timeout_ms_of(group_id))
    # One batch: the deletion of this group and the classic one in its place, so that a crash leaves
    # either.
    entries = changes(before.moved(ConsumerGroupEvent.LEFT), None)
    entries.append((encode_classic_key(group_id), encode_value(record, ctx.clock.now_ms())))
    write(ctx, group_id, entries)
    # Before `drop`, which forgets it.
    end_offset = consumers.end_offset(group_id)
    consumers.drop(group_id)
    # They are in the record, see `downgraded`, and leave the group in memory at once.
    gone = [member_id for member_id in before.members if member_id not in after.members]
    coordinator.begin_classic(group_id, record, gone, ctx.clock.monotonic_ms())
    return end_offset


def give_name_to_classic(ctx: Context, group_id: str) -> None:
    """Turn an empty consumer group into a classic one, for a classic member that joins. Raises
    KafkaError: INCONSISTENT_GROUP_PROTOCOL if it has members, or when nothing was written."""
    consumers = ctx.clients.groups.coordinator.consumers
    group = consumers.get(group_id)
    if group is None:
        return
    if group.state is not ConsumerGroupState.EMPTY:
        message = f"group {group_id} has members of the consumer protocol (group.protocol=consumer)"
        raise KafkaError(ErrorCode.inconsistent_group_protocol, message)
    entries = changes(group.moved(ConsumerGroupEvent.REMOVED), None)
    # With the epoch as its generation: the number must not decrease, or a member of before could be
    # taken for one of the new group.
    record = empty_record(group)
    entries.append((encode_classic_key(group_id), encode_value(record, ctx.clock.now_ms())))
    write(ctx, group_id, entries)
    consumers.drop(group_id)
    now_ms = ctx.clock.monotonic_ms()
    ctx.clients.groups.coordinator.begin_classic(group_id, record, (), now_ms)
