"""The leader's side of replication: roles from the image, appends and ISR changes.

Rules: delayed operations on a partition are checked again whenever its high watermark, role or ISR
has changed. ISR changes are proposed to the metadata log (AlterIsr), one proposal at a time for
every partition that is due; the result is read from the image, which has moved or has not.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.rounds import steps
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.changes import AlterIsr, IsrItem
from josefine_broker.engine.metadata.image import NO_LEADER, PartitionEntry
from josefine_broker.engine.metadata.leader_election import eligible
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.engine.replicas.catching_up import forget_catch_up, must_catch_up

PROPOSAL_TIMEOUT_MS = 10_000
"""After this an ISR proposal is in doubt: its members still count, and it is proposed again."""


SILENT_WAITS = 3
"""A follower sends a new fetch after each wait: after this many it counts as silent."""


def isr_check_ms(ctx: Context) -> int:
    """How often `isr_steps` must be run: four times per lag time, but at most once a
    second."""
    return max(50, min(1_000, ctx.settings.replica_fetch.lag_time_max_ms // 4))


def take_role(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, entry: PartitionEntry
) -> bool:
    """Lead or follow, as the image assigns it; returns whether leader or epoch are new.

    The caller wakes the delayed operations (`wake_all`) once the image is applied everywhere.
    """
    partition, log = hosted.partition, hosted.log
    key = (hosted.topic_id, tp.partition)
    if partition.awaits_repair:
        if (entry.leader, entry.leader_epoch) != (partition.leader, partition.leader_epoch):
            ctx.hosted.fetchers.forget(key)
        partition.assign(entry)
        return False
    if entry.leader == ctx.broker_id and must_catch_up(ctx, tp, hosted, entry):
        ctx.hosted.fetchers.forget(key)
        partition.doubted(entry)
        return False
    if entry.leader == ctx.broker_id:
        # The fetcher stops before the role changes: an answer of the previous leader that arrives
        # later must not be appended to a log that this broker leads.
        ctx.hosted.fetchers.forget(key)
        # It led before: only then is another ISR a shrink or an expansion, and not part of an
        # election.
        if partition.is_leader:
            ctx.hosted.counters.isr_shrinks += not set(partition.isr) <= set(entry.isr)
            ctx.hosted.counters.isr_expands += not set(entry.isr) <= set(partition.isr)
        hosted.halt = ""
        is_new = partition.lead(
            entry, log.log_end_offset, ctx.clock.monotonic_ms(), log.durable_end_offset
        )
        if is_new:
            ctx.ports.logs.store_epochs(tp)
        return is_new
    forget_catch_up(ctx, tp)
    # A leader has counted this replica as complete; so does an election of this replica in doubt.
    is_complete = entry.completeness_of(ctx.broker_id) is Completeness.COMPLETE
    is_counted = is_complete and ctx.broker_id in entry.isr and entry.leader != NO_LEADER
    if hosted.ends_in_damage and is_counted:
        hosted.ends_in_damage = False
        ctx.ports.logs.is_complete(tp)
    is_new = partition.follow(entry, log.log_end_offset)
    if is_new:
        hosted.halt = ""
    # Nothing to copy from: the log stays as it is until the image names a leader.
    if entry.leader == NO_LEADER:
        ctx.hosted.fetchers.forget(key)
    elif is_new:
        begin_to_follow(ctx, tp, hosted)
    return is_new


def begin_to_follow(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """Fetch from the leader that the image names, from the end of our log on."""
    partition, log = hosted.partition, hosted.log
    key = (hosted.topic_id, tp.partition)
    ctx.hosted.fetchers.follow(
        key,
        partition.leader,
        partition.leader_epoch,
        log.log_end_offset,
        partition.epochs.latest,
        log.log_start_offset,
    )
    # A fetch acknowledges all before its offset, so the first one waits for the sync.
    if log.durable_end_offset < log.log_end_offset:
        ctx.hosted.fetchers.written(key)


def wake_all(ctx: Context, tps: Iterable[tuple[str, int]]) -> None:
    """Check all delayed operations on these partitions again, the followers' fetches included."""
    now_ms = ctx.clock.monotonic_ms()
    followers: dict[int, None] = {}
    for tp in tps:
        hosted = ctx.hosted.partitions.get(tp)
        if hosted is not None:
            followers.update(dict.fromkeys(hosted.partition.replicas))
        ctx.parked.wake(tp, now_ms)
    for broker_id in followers:
        ctx.parked.wake_follower(broker_id, now_ms)


def appended_to_many(
    ctx: Context, tp: tuple[str, int], hosted: HostedPartition, base_offset: int
) -> None:
    """Wake the followers of a partition whose log grew from `base_offset`."""
    replicas = note_appended(ctx, tp, hosted, base_offset)
    wake_followers(ctx, replicas, ctx.clock.monotonic_ms())


def note_appended(
    ctx: Context, tp: tuple[str, int], hosted: HostedPartition, base_offset: int
) -> tuple[int, ...]:
    """Note that the log of a partition with several replicas grew from `base_offset`; returns the
    replicas, whose waiting fetches are to be woken.

    `base_offset` is the end of the log before the append: a follower that was there had everything
    until now, and so does not lag (`Followers.appended`).
    """
    ctx.parked.followers.note(tp)
    note_grown(ctx, tp, hosted, base_offset, ctx.clock.monotonic_ms())
    return hosted.partition.replicas


def note_grown(
    ctx: Context, tp: tuple[str, int], hosted: HostedPartition, base_offset: int, now_ms: int
) -> None:
    """The same, where the followers have been notified of the growth."""
    partition = hosted.partition
    followers = partition.followers
    assert followers is not None
    followers.appended(base_offset, now_ms)
    if partition.advance_high_watermark(hosted.log.durable_end_offset):
        ctx.parked.wake(tp, now_ms)


def wake_followers(ctx: Context, broker_ids: Iterable[int], now_ms: int) -> None:
    """Answer the waiting fetches of these replicas: a log that they copy has grown."""
    for broker_id in broker_ids:
        if broker_id != ctx.broker_id:
            ctx.parked.wake_follower(broker_id, now_ms)
    ctx.parked.followers.grown.clear()


def brokers_changed(ctx: Context) -> None:
    """Stop waiting for joining followers that are no longer live: they must not hold back a high
    watermark."""
    image = ctx.image
    moved = []
    for tp, hosted in ctx.hosted.partitions.items():
        followers = hosted.partition.followers
        if followers is not None and followers.joining:
            gone = [each for each in followers.joining if not image.is_live(each)]
            if followers.drop_joining(gone):
                hosted.partition.advance_high_watermark(hosted.log.durable_end_offset)
                moved.append(tp)
    wake_all(ctx, moved)


def isr_steps(ctx: Context) -> Iterator[object]:
    """Periodic: propose to remove followers that lag too long, repeat refused proposals, and find
    the partitions that are stranded here."""
    now_ms, is_heard = ctx.clock.monotonic_ms(), ctx.cluster.is_heard
    silent_since_ms = now_ms - SILENT_WAITS * ctx.settings.replica_fetch.wait_ms
    moved = []
    for each in steps(ctx.hosted.partitions):
        if each is None:
            yield None
            continue
        tp, hosted = each
        partition = hosted.partition
        # The common case of small clusters: thousands of partitions cost one comparison each.
        if partition.followers is None or partition.is_alone:
            continue
        before = partition.high_watermark, partition.is_stranded
        # Both are required: a leader whose controller is down but whose followers still fetch has
        # not been replaced, for they would follow the new leader.
        partition.is_stranded = not is_heard and partition.followers.are_silent(silent_since_ms)
        if _wanted_isr(ctx, hosted, now_ms) is not None:
            ctx.hosted.isr.due[tp] = None
        if (partition.high_watermark, partition.is_stranded) != before:
            moved.append(tp)
    wake_all(ctx, moved)
    submit_isr_changes(ctx)


def submit_isr_changes(ctx: Context) -> None:
    """Propose the ISR changes that are due, unless a proposal is in flight: then they follow it.
    While the image lacks this process they stay due, because every proposal would be refused."""
    isr, broker_epoch = ctx.hosted.isr, ctx.broker_epoch
    if isr.is_open or not isr.due or broker_epoch < 0:
        return
    now_ms = ctx.clock.monotonic_ms()
    # From `begin_change` on, the proposed members hold back the high watermark: the controller may
    # elect any of them as soon as the block is committed, before this broker has the answer.
    due, isr.due = isr.due, {}
    items, moved = [], []
    for tp in due:
        hosted = ctx.hosted.partitions.get(tp)
        if hosted is not None:
            before = hosted.partition.high_watermark
            item = _item(ctx, hosted, tp[1], now_ms)
            if item is not None:
                items.append(item)
            if hosted.partition.high_watermark != before:
                moved.append(tp)
    wake_all(ctx, moved)
    if not items:
        return
    change = AlterIsr(broker_id=ctx.broker_id, broker_epoch=broker_epoch, items=tuple(items))
    ctx.hosted.counters.isr_proposals += 1
    # One at a time: each item names the partition epoch that it was made for, and an accepted one
    # raises it.
    isr.is_open = True
    deadline_ms = now_ms + PROPOSAL_TIMEOUT_MS
    try:
        proposal = submit_change(ctx, change, deadline_ms)
    except KafkaError:
        # It was not proposed at all, so it cannot take effect later.
        _settled(ctx, change, refused=True)
        return
    answer_when_settled(
        ctx, [proposal], deadline_ms, lambda: _settled(ctx, change, refused=_is_refused(proposal))
    )


def _item(ctx: Context, hosted: HostedPartition, index: int, now_ms: int) -> IsrItem | None:
    """The change of one partition, and its beginning here; None: it is not due any more."""
    partition = hosted.partition
    isr = _wanted_isr(ctx, hosted, now_ms)
    followers = partition.followers
    entry = ctx.image.partition(ctx.image.topic_names.get(hosted.topic_id, ""), index)
    if isr is None or followers is None or entry is None:
        return None
    followers.begin_change(isr)
    return IsrItem(
        hosted.topic_id,
        index,
        partition.leader_epoch,
        followers.partition_epoch,
        isr,
        # KIP-966: members that leave while too few are left stay eligible for an election.
        eligible(entry, isr, partition.min_insync_replicas),
        followers.joined(isr),
    )


def _wanted_isr(ctx: Context, hosted: HostedPartition, now_ms: int) -> tuple[int, ...] | None:
    """The ISR that this leader wants by now; None: the one in the image."""
    log = hosted.log
    return hosted.partition.wanted_isr(
        log.log_end_offset,
        now_ms,
        ctx.settings.replica_fetch.lag_time_max_ms,
        log.durable_end_offset,
    )


def _is_refused(proposal: Proposal) -> bool:
    """Whether the change cannot take effect any more. Without an error its block was applied: an
    item that was accepted has moved the image, one that was skipped has not. Only after a timeout
    the block may still come."""
    error = proposal.error
    return error is None or error.code is not ErrorCode.request_timed_out


def _settled(ctx: Context, change: AlterIsr, *, refused: bool) -> None:
    """Handle the result of a proposal: applied (the image has what was accepted), refused, or in
    doubt.

    `refused` false means in doubt: the members it would add still hold back the high watermark,
    because its block may still be applied.
    """
    now_ms = ctx.clock.monotonic_ms()
    ctx.hosted.isr.is_open = False
    moved = []
    for item in change.items:
        found = _find(ctx, item.topic_id, item.partition)
        if found is None or found[1].partition.leader_epoch != item.leader_epoch:
            continue
        tp, hosted = found
        followers = hosted.partition.followers
        if followers is not None:
            followers.end_change(item.partition_epoch, now_ms, refused=refused)
            if hosted.partition.advance_high_watermark(hosted.log.durable_end_offset):
                moved.append(tp)
    wake_all(ctx, moved)
    submit_isr_changes(ctx)


def _find(
    ctx: Context, topic_id: UUID, index: int
) -> tuple[tuple[str, int], HostedPartition] | None:
    """By topic id: the name may be another topic's by now."""
    name = ctx.image.topic_names.get(topic_id)
    if name is None:
        return None
    hosted = ctx.hosted.partitions.get((name, index))
    return None if hosted is None else ((name, index), hosted)
