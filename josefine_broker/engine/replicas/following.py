"""The follower's handling of fetch answers: append, truncate, restart, move the watermarks.

Rules: offsets and epochs are the leader's; every batch is checked (checksum, offset, epoch) before
it is written (checklist row 29). A log that diverges from the leader's is truncated to the point
where both agree, found by leader epochs (KIP-101, KIP-279), and its producer state is rebuilt. A
log whose end is below the leader's log start offset restarts there. An error pauses only the one
partition.

The next fetch offset acknowledges to the leader what is durable here: where the log must be synced
for that (`flush.messages=1`), the partition is fetched again after the sync (`fetch_on`).

A follower does not truncate below its own high watermark, where records were acknowledged, unless
an unclean election accounts for their loss. Otherwise it stops following that partition and logs
why: a log that was damaged unnoticed would be copied over every intact one.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import Buffer, HostedPartition
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.partition.replica_fetch import (
    SESSION_ERRORS,
    Copy,
    CopyState,
    ReplicaFetcher,
)
from josefine_broker.engine.ports import Gravity
from josefine_broker.engine.replicas.limited import note_limit
from josefine_broker.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    iter_batches,
    parse_header,
    verify,
)
from josefine_broker.records.crc import crc32c
from josefine_broker.wire.fetch import FetchPartitionResponse, FetchResponse

HALT_MS = 5_000
"""How long a follower waits that would have to truncate acknowledged records: a new leader may not
know its high watermark yet."""


class HaltError(Exception):
    """The leader lacks acknowledged records; the message is a sentence for the operator."""


def hear(ctx: Context, fetcher: ReplicaFetcher, number: int, response: FetchResponse) -> None:
    """Apply a leader's answer to request `number`."""
    now_ms = ctx.clock.monotonic_ms()
    if response.error_code and ErrorCode(response.error_code) not in SESSION_ERRORS:
        ctx.hosted.counters.replication_errors += 1
        reason = ErrorCode(response.error_code).name
        ctx.ports.tell("a leader refused a fetch", leader=fetcher.leader_id, reason=reason)
    was_lost = fetcher.lost_at_ms is not None
    for copy, answer in fetcher.hear(number, response, now_ms):
        topic_id, index = copy.key
        name = ctx.image.topic_names.get(topic_id)
        hosted = None if name is None else ctx.hosted.partitions.get((name, index))
        # The answer is late: the topic was deleted, moved away, or this broker leads it now.
        if name is None or hosted is None or hosted.partition.is_leader:
            fetcher.fail(copy.key, now_ms)
            continue
        # Like TopicPartition(...), whose generated constructor costs twice as much.
        tp = tuple.__new__(TopicPartition, (name, index))
        _follow(ctx, fetcher, tp, hosted, copy, answer, now_ms)
    if was_lost and fetcher.lost_at_ms is None:
        ctx.parked.wake_for_brokers(now_ms)


def _follow(
    ctx: Context,
    fetcher: ReplicaFetcher,
    tp: TopicPartition,
    hosted: HostedPartition,
    copy: Copy,
    answer: FetchPartitionResponse,
    now_ms: int,
) -> None:
    """Apply the answer for one partition, and note what to fetch next."""
    partition, its_log = hosted.partition, hosted.log
    # After an exception the copy does not move: the next fetch acknowledges only what is here.
    moved, size = False, 0
    # Our log is outside of the leader's range. Without its log start there is no place to restart.
    is_outside = answer.error_code == ErrorCode.offset_out_of_range and answer.log_start_offset >= 0
    if partition.awaits_repair and (is_outside or not answer.error_code):
        hosted.served_by = fetcher.leader_id, copy.leader_epoch
    try:
        if is_outside:
            # Not before a repair: while damage hides epochs, the leader may find no common one
            # although both logs have the same committed records.
            if moved := not partition.awaits_repair:
                restart(ctx, tp, hosted, answer.log_start_offset, answer.high_watermark)
        elif answer.error_code:
            _complain(ctx, tp, ErrorCode(answer.error_code).name)
            fetcher.fail(copy.key, now_ms)
            return
        elif (place := answer.diverging or _starts_before(hosted, answer.records)) is not None:
            moved = _truncate(ctx, tp, hosted, *place, by_epochs=answer.diverging is not None)
        elif answer.records and not partition.awaits_repair:
            size = append_fetched(ctx, tp, hosted, answer.records)
            moved = size > 0
        if partition.awaits_repair and not moved:
            # It has asked where to cut its log. Not all of its epochs are known, so a log that
            # differs may look the same: nothing is appended, or known to be committed.
            fetcher.pause(copy.key, now_ms + HALT_MS)
        if answer.log_start_offset > its_log.log_start_offset:
            moved |= _follow_start(hosted, answer.log_start_offset)
    except (KafkaError, CorruptData) as error:
        note_limit(ctx, tp, hosted, error)
        _complain(ctx, tp, str(error))
        fetcher.fail(copy.key, now_ms)
        return
    except HaltError as error:
        _halt(ctx, tp, hosted, str(error))
        fetcher.pause(copy.key, now_ms + HALT_MS)
        return
    hosted.halt = ""
    if ctx.hosted.fetchers.of(copy.key) is not fetcher:
        return  # the cut has met damage: the repair comes first
    if partition.awaits_repair:
        if moved:
            _move(fetcher, copy, hosted)
        return
    durable_end = its_log.durable_end_offset
    # The high watermark follows our durable end, never the leader's own end: this replica may be
    # elected next, and must not claim records that a power failure can take.
    woken = partition.follow_high_watermark(answer.high_watermark, durable_end)
    if durable_end < its_log.log_end_offset:
        fetcher.written(copy.key)
    elif moved:
        _move(fetcher, copy, hosted)
    # Replication quota: only replicas that catch up are slowed, never those that acks=all waits
    # for.
    if size and ctx.broker_id not in partition.isr:
        until_ms = ctx.hosted.fetchers.charge(size, now_ms)
        if until_ms > now_ms:
            fetcher.pause(copy.key, until_ms)
    if woken:
        ctx.parked.wake(tp, now_ms)


def fetch_on(ctx: Context, tp: TopicPartition, hosted: HostedPartition, now_ms: int) -> None:
    """The partition's log was synced: the next request acknowledges what is durable."""
    partition, its_log = hosted.partition, hosted.log
    key = (hosted.topic_id, tp.partition)
    fetcher = ctx.hosted.fetchers.of(key)
    copy = None if fetcher is None else fetcher.get(key)
    if fetcher is None or copy is None:
        return
    end = its_log.durable_end_offset
    if end >= its_log.log_end_offset and (
        copy.state is CopyState.WRITTEN or copy.fetch_offset != end
    ):
        _move(fetcher, copy, hosted)
    if partition.follow_high_watermark(copy.leaders_high_watermark, end):
        ctx.parked.wake(tp, now_ms)


def _move(fetcher: ReplicaFetcher, copy: Copy, hosted: HostedPartition) -> None:
    """Continue at the end of this replica's log."""
    its_log = hosted.log
    end, start = its_log.log_end_offset, its_log.log_start_offset
    fetcher.moved(copy.key, end, hosted.partition.epochs.latest, start)


def append_fetched(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, records: Sequence[Buffer]
) -> int:
    """Write the leader's batches; returns bytes written. Raises KafkaError, CorruptData."""
    # Before anything is written: half a batch would have to be cut off again.
    if ctx.storage.is_full:
        raise KafkaError(ErrorCode.kafka_storage_error, ctx.storage.trouble)
    counters, now_ms = ctx.hosted.counters, ctx.clock.now_ms()
    header = next_header(hosted, records[0]) if len(records) == 1 else None
    if header is not None:
        batch = memoryview(records[0])
        hosted.log.append(batch, header, now_ms)
        hosted.partition.copied(header, batch, now_ms)
        counters.replicated_bytes += len(batch)
        counters.replicated_batches += 1
        return len(batch)
    before, new_epoch = counters.replicated_bytes, False
    try:
        for buffer in records:
            for run in _runs(hosted, memoryview(buffer)):
                new_epoch |= run.headers[0].leader_epoch != hosted.partition.epochs.latest
                _append_run(ctx, hosted, run, now_ms)
    finally:
        # An empty log may begin again within the leader's batch, which is then not written.
        partition = hosted.partition
        partition.high_watermark = min(partition.high_watermark, hosted.log.log_end_offset)
        if new_epoch:
            ctx.ports.logs.store_epochs(tp)
    return counters.replicated_bytes - before


def next_header(hosted: HostedPartition, data: Buffer) -> BatchHeader | None:
    """Of an intact batch that is all of the answer and continues our log in its leader epoch, as an
    answer to a follower that had everything mostly is. None: `_runs` finds out what it is."""
    size = len(data)
    if size < HEADER_BYTES:
        return None
    header = parse_header(data)
    if (
        header.batch_length + LENGTH_OVERHEAD_BYTES != size
        or header.base_offset != hosted.log.log_end_offset
        or header.leader_epoch != hosted.partition.epochs.latest
        or header.attributes & CONTROL_BIT
        or header.magic != MAGIC
        or (header.last_offset_delta | header.record_count) < 0
        or crc32c(memoryview(data)[CRC_START:]) != header.crc
    ):
        return None
    return header


class _Run(NamedTuple):
    """Batches that follow each other in one leader epoch, and their bytes. A control batch ends
    its run: if it turns out to be unreadable, nothing that follows it may be in the log."""

    data: memoryview
    headers: list[BatchHeader]


def _runs(hosted: HostedPartition, data: memoryview) -> Iterator[_Run]:
    """The verified batches of an answer that are not here yet; write each run before taking the
    next. Raises CorruptData, once the batches before the damaged one were given."""
    its_log = hosted.log
    headers: list[BatchHeader] = []
    start = end = next_offset = 0
    problem: CorruptData | None = None
    try:
        for pos, header in iter_batches(data):
            size = header.size_bytes
            shape = header.last_offset_delta | header.record_count
            if shape < 0 or crc32c(data[pos + CRC_START : pos + size]) != header.crc:
                verify(data, pos, header)  # raises, with the reason
            is_next = (
                headers
                and header.base_offset == next_offset
                and header.leader_epoch == headers[0].leader_epoch
            )
            if not is_next:
                if headers:
                    yield _Run(data[start:end], headers)
                    headers = []
                if header.last_offset < its_log.log_end_offset:
                    continue  # fetched twice, or it spans the log start offset of a restarted log
                # From its header alone: a follower never opens records (ARCHITECTURE.md).
                _check_place(hosted, header)
                start = pos
            headers.append(header)
            end, next_offset = pos + size, header.end_offset
            if header.attributes & CONTROL_BIT:
                yield _Run(data[start:end], headers)
                headers = []
    except CorruptData as error:
        problem = error
    if headers:
        yield _Run(data[start:end], headers)
    if problem is not None:
        raise problem


def _append_run(ctx: Context, hosted: HostedPartition, run: _Run, now_ms: int) -> None:
    """Write the batches, and let the partition know each. Raises KafkaError, CorruptData."""
    partition, its_log, counters = hosted.partition, hosted.log, ctx.hosted.counters
    data, headers = run
    is_written = len(headers) > 1 and its_log.append_copies(data, headers, now_ms)
    pos = 0
    for header in headers:
        size = header.size_bytes
        batch = data[pos : pos + size]
        if not is_written:
            its_log.append(batch, header, now_ms)
        partition.copied(header, batch, now_ms)
        counters.replicated_bytes += size
        counters.replicated_batches += 1
        pos += size


def _check_place(hosted: HostedPartition, header: BatchHeader) -> None:
    """Raises CorruptData for a batch that does not continue our log."""
    its_log, epochs = hosted.log, hosted.partition.epochs
    end = its_log.log_end_offset
    if header.leader_epoch < epochs.latest:
        raise CorruptData(f"a batch of epoch {header.leader_epoch} after epoch {epochs.latest}")
    if header.base_offset == end:
        return
    if header.base_offset < end == its_log.log_start_offset:
        # An empty log that restarted at the leader's log start offset, which is within this batch.
        its_log.restart_at(header.base_offset)
        # The epochs of the records that are gone would make the next fetch diverge.
        epochs.clear()
        return
    if header.base_offset < end or not hosted.settings.log.may_have_holes:
        raise CorruptData(f"a batch with base offset {header.base_offset}, expected {end}")


def _truncate(
    ctx: Context,
    tp: TopicPartition,
    hosted: HostedPartition,
    epoch: LeaderEpoch,
    end_offset: int,
    *,
    by_epochs: bool,
) -> bool:
    """The leader's largest epoch not above our last one is `epoch`, which ended at `end_offset`:
    truncate to that offset, or to the end of that epoch here if it is smaller. False: not before
    the repair, because damage hides later epochs here, and the cut would take committed records,
    of which these may be the only intact copy. `by_epochs`: the leader compared epochs; otherwise
    it has sent a batch that ours does not equal."""
    partition, its_log = hosted.partition, hosted.log
    our_epoch, our_end = partition.epochs.end_of(epoch, its_log.log_end_offset)
    # Both logs agree up to the smaller of the two ends of that epoch (KIP-101).
    target = end_offset if our_epoch < 0 else min(end_offset, our_end)
    if target < 0:
        raise CorruptData(f"the leader sent end offset {end_offset} for epoch {epoch}")
    # An unclean election allows a cut below the high watermark, but it does not show that the logs
    # differ: hidden epochs make a log that is equal to its leader's look shorter.
    is_committed = target < partition.high_watermark
    is_kept = is_committed and (by_epochs or not partition.may_be_cut_to(target))
    if partition.awaits_repair and is_kept:
        return False
    check_cut(ctx, tp, hosted, target)
    ctx.hosted.counters.truncations += 1
    event: dict[str, Any] = {"partition": str(tp), "from": its_log.log_end_offset, "to": target}
    if target < partition.high_watermark:
        what = "truncated below the high watermark: an unclean election"
        ctx.ports.tell(what, gravity=Gravity.WARNING, **event)
    else:
        ctx.ports.tell("truncated", **event)
    its_log.truncate_to(target)
    # The log decides where it ends: a cut is at the start of a batch.
    partition.truncated(its_log.log_end_offset)
    _after_cut(ctx, tp, hosted)
    return True


def check_cut(ctx: Context, tp: TopicPartition, hosted: HostedPartition, end_offset: int) -> None:
    """Raises HaltError. Images below that feature level do not record unclean elections. A log
    that is itself in doubt is no evidence (a flipped leader epoch makes it diverge, too)."""
    partition = hosted.partition
    if partition.may_be_cut_to(end_offset) or not ctx.image.keeps_doubts:
        return
    entry = ctx.image.partition(tp.topic, tp.partition)
    if entry is None or entry.completeness_of(ctx.broker_id) is not Completeness.COMPLETE:
        return
    raise HaltError(
        f"broker {partition.leader}, the leader in epoch {partition.leader_epoch}, has this log "
        f"up to offset {end_offset}, but records up to {partition.high_watermark} were "
        "acknowledged and no unclean election removed them: its log or the one here is damaged"
    )


def _halt(ctx: Context, tp: TopicPartition, hosted: HostedPartition, reason: str) -> None:
    """Stop following, and log it once: the state lasts until an operator or another leader acts."""
    if not hosted.halt:
        ctx.hosted.counters.truncations_refused += 1
        ctx.ports.tell(
            "replication stopped", gravity=Gravity.ERROR, partition=str(tp), reason=reason
        )
    hosted.halt = reason


def _starts_before(
    hosted: HostedPartition, records: Sequence[Buffer] | None
) -> tuple[LeaderEpoch, int] | None:
    """Epoch and base offset of the leader's first batch, if our log ends within it. That happens
    where a repair awaits batches that only the leader's log has not, and our epochs are unknown, so
    that the leader finds no divergence."""
    end = hosted.log.log_end_offset
    if not hosted.partition.awaits_repair or not records:
        return None
    for _, header in iter_batches(memoryview(records[0])):
        is_within = hosted.log.log_start_offset <= header.base_offset < end < header.end_offset
        return (header.leader_epoch, header.base_offset) if is_within else None
    return None


def restart(
    ctx: Context,
    tp: TopicPartition,
    hosted: HostedPartition,
    offset: int,
    leaders_high_watermark: int,
) -> None:
    """No part of the leader's log continues ours: restart at the leader's log start offset. Records
    that the leader has or has deleted are not lost by that."""
    check_cut(ctx, tp, hosted, max(offset, leaders_high_watermark))
    event: dict[str, Any] = {"partition": str(tp), "from": hosted.log.log_end_offset, "to": offset}
    what = "log outside the leader's range: restarts at the leader's log start offset"
    ctx.ports.tell(what, gravity=Gravity.WARNING, **event)
    hosted.log.restart_at(offset)
    hosted.partition.restarted(offset)
    _after_cut(ctx, tp, hosted)


def _after_cut(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """Rebuild the producers if the cut removed batches of them; epochs are stored in any case."""
    producers = hosted.partition.producers
    is_replayed_later = hosted.partition.awaits_repair
    if is_replayed_later:
        ctx.ports.logs.store_epochs(tp)
        return
    if producers.reaches(hosted.log.log_end_offset):
        now_ms = ctx.clock.now_ms()
        producers.clear()
        is_whole = hosted.log.replay(
            producers.restore, lambda header, batch: producers.take(header, batch, now_ms)
        )
        if not is_whole:  # it does not follow before its repair has replayed all batches
            hosted.partition.damaged()
            ctx.hosted.fetchers.forget((hosted.topic_id, tp.partition))
    ctx.ports.logs.store_epochs(tp)


def _follow_start(hosted: HostedPartition, leaders_start: int) -> bool:
    """Delete the records that the leader has deleted (retention, DeleteRecords); returns whether
    there were any. The leader must learn of it, because a DeleteRecords request may wait."""
    its_log = hosted.log
    # Never beyond the end here: offsets in between do not exist on this replica yet.
    start = min(leaders_start, its_log.log_end_offset)
    if start <= its_log.log_start_offset:
        return False
    its_log.delete_before(start)
    hosted.partition.started_at(start)
    return True


def _complain(ctx: Context, tp: TopicPartition, reason: str) -> None:
    """Count and log an error; the partition is fetched again after a pause."""
    ctx.hosted.counters.replication_errors += 1
    ctx.ports.tell("replication of a partition failed", partition=str(tp), reason=reason)
