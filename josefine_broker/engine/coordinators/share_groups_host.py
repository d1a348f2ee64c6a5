"""The host of share groups (`engine/groups/share/`): it writes their changes to
`__consumer_offsets`, and answers when these are committed.

Rules: as for groups of the consumer protocol (`consumer_groups_host.py`). A group id belongs to a
group of one protocol; a share group that is deleted takes its share states with it.
"""

from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import Entry, coordinators
from josefine_broker.engine.coordinators.offsets_topic import append_records, coordinator_of
from josefine_broker.engine.groups.share.group import ShareBeat, ShareBeatAnswer, ShareGroup
from josefine_broker.engine.groups.share.records import changes
from josefine_broker.engine.groups.values import Lost
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed


def heartbeat(
    ctx: Context,
    group_id: str,
    beat: ShareBeat,
    build: Callable[[ShareBeatAnswer], object],
    fail: Callable[[KafkaError], object],
) -> object:
    """Handle one heartbeat: returns the answer of `build` or `fail`, or a token that gets it when
    the change is committed. Raises KafkaError when it is refused, or nothing could be written.

    A member may use its partitions once it has the answer. An answer before the commit could name
    an epoch that the next coordinator never heard of, which would then fence the member.
    """
    coordinator = ctx.clients.groups.coordinator
    shares, topics = coordinator.shares, ctx.image.topics
    before = shares.get(group_id)
    # The offsets and the views of a group are found by its id alone, whatever its protocol is.
    if before is None and (coordinator.view(group_id) is not None):
        message = f"Group {group_id} is not a share group."
        raise KafkaError(ErrorCode.group_id_not_found, message)
    after, answer = shares.beat(group_id, beat, topics)
    # Written before it is kept: if the append fails, the group in memory has not changed, and the
    # member repeats its heartbeat.
    entries = changes(before, after)
    if entries:
        write(ctx, group_id, entries)
        shares.keep(after, ctx.clock.monotonic_ms())
        coordinator.counts.rebalances += before is None or before.epoch != after.epoch
    shares.beaten(group_id, answer.member_id, topics, ctx.clock.monotonic_ms())
    outcome: list[KafkaError | None] = []

    def settle(error: KafkaError | None) -> None:
        outcome.append(error and coordinators(error))

    def told() -> object:
        (error,) = outcome
        return build(answer) if error is None else fail(error)

    # Also for a heartbeat that changed nothing: its answer may rest on an earlier change that is
    # not committed, which a new coordinator would not know.
    tp, hosted = coordinator_of(ctx, group_id)
    written = Appended(ctx, tp, hosted, shares.end_offset(group_id), settle)
    return answer_when_committed(ctx, [written], ctx.settings.offsets.timeout_ms, told)


def write(ctx: Context, group_id: str, entries: list[Entry]) -> None:
    """Append the entries. Raises KafkaError when nothing was written. The result of the commit is
    not waited for here: `heartbeat` compares the end offset with the high watermark."""
    try:
        appended = append_records(ctx, group_id, entries, ctx.clock.now_ms(), lambda error: None)
    except KafkaError as error:
        if error.code is ErrorCode.invalid_commit_offset_size:
            # As in Kafka: the group itself is too large.
            raise KafkaError(ErrorCode.unknown_server_error, error.message) from error
        raise
    ctx.clients.groups.coordinator.shares.wrote(group_id, appended.end_offset)


def change_group(ctx: Context, before: ShareGroup | None, after: ShareGroup) -> None:
    """Write a change that no member asked for, and keep it. Raises KafkaError when nothing was
    written. Nobody waits for the commit: later answers of the group do."""
    entries = changes(before, after)
    if entries:
        write(ctx, after.group_id, entries)
        ctx.clients.groups.coordinator.shares.keep(after, ctx.clock.monotonic_ms())


def lose_share_members(ctx: Context, effect: Lost) -> None:
    """Remove lost members. Raises nothing: a write that fails is repeated after `AGAIN_MS`, when
    `ShareGroups.late` reports the members again."""
    before = ctx.clients.groups.coordinator.shares.get(effect.group_id)
    if before is None:
        return
    try:
        change_group(ctx, before, before.without(effect.member_ids))
    except KafkaError:
        return
    ctx.clients.groups.coordinator.counts.members_lost += len(effect.member_ids)
