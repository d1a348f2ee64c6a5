"""The append of several batches to one log by one write: those of plain produce requests, and those
that a follower has copied.

Rules: all of the batches are appended or none; the log's files and facts are those that one append
per batch leaves. A roll, a sync of the append itself, a log that has failed: none of them is plain,
and the caller takes the general path.
"""

from collections.abc import Callable, Sequence

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log_sync import LogSync
from josefine_broker.host.log.segment import RELATIVE_OFFSET_MAX, Segment
from josefine_broker.records.batch import BatchHeader
from josefine_broker.records.crc import Buffer
from josefine_broker.records.plain_produce import Assembled, PlainRequest, compiled


def append_plain(
    segment: Segment,
    sync: LogSync,
    config: LogConfig,
    requests: list[PlainRequest],
    size: int,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    written: Callable[[int], None] | None = None,
) -> tuple[int, Buffer] | None:
    """The offset of the first batch, and the bytes of all, or None: nothing was appended. `segment`
    is the log's last. `written` is called with that offset once the file has the batches."""
    # `_takes_many`, without its call: this is part of each round trip of a client that is alone.
    grown = segment.size_bytes
    if (
        compiled is None
        or sync.failure
        or (config.flush_messages is not None and not sync.is_grouped(config))
        or not 0 < grown <= config.segment_bytes - size
    ):
        return None
    assert leader_epoch >= segment.last_leader_epoch, f"leader epoch {leader_epoch} is old"
    base_offset = segment.end_offset
    assembled = compiled.assemble(
        requests, size, base_offset, leader_epoch, grown, segment.last_index_position,
        config.index_interval_bytes, segment.max_timestamp_ms,
    )  # fmt: skip
    is_written = _write(segment, sync, config, assembled, leader_epoch, now_ms, written)
    return (base_offset, assembled[0]) if is_written else None


def append_copies(
    segment: Segment,
    sync: LogSync,
    config: LogConfig,
    data: memoryview,
    headers: Sequence[BatchHeader],
    now_ms: int,
) -> bool:
    """Append verified batches of one leader epoch that continue the log, back to back in `data`.
    False: nothing was appended. `segment` is the log's last."""
    if not _takes_many(segment, sync, config, len(data)):
        return False
    first = headers[0]
    assert first.base_offset >= segment.end_offset, "the batches do not continue the log"
    assert first.leader_epoch >= segment.last_leader_epoch, "an old leader epoch"
    # As `Segment.account` does for each batch.
    position, marked = segment.size_bytes, segment.last_index_position
    max_ms, max_offset = segment.max_timestamp_ms, -1
    marks: list[tuple[int, int, int]] = []
    for header in headers:
        if marked < 0 or position - marked >= config.index_interval_bytes:
            marks.append((header.base_offset, position, max_ms))
            marked = position
        if header.max_timestamp_ms > max_ms and header.record_count:
            max_ms, max_offset = header.max_timestamp_ms, header.base_offset
        position += header.size_bytes
    assert position == segment.size_bytes + len(data), "more or less than these batches"
    assembled = data, headers[-1].end_offset, max_ms, max_offset, marks
    return _write(segment, sync, config, assembled, first.leader_epoch, now_ms)


def _takes_many(segment: Segment, sync: LogSync, config: LogConfig, size: int) -> bool:
    """Whether several batches of that size in all may be appended by one write."""
    if sync.failure:
        return False
    # A number of messages per sync, above one, is counted batch by batch.
    if config.flush_messages is not None and not sync.is_grouped(config):
        return False
    # An empty segment takes any batch, but what follows would have to roll.
    return 0 < segment.size_bytes <= config.segment_bytes - size


def _write(
    segment: Segment,
    sync: LogSync,
    config: LogConfig,
    assembled: Assembled,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    written: Callable[[int], None] | None = None,
) -> bool:
    """Write the batches and account for them, unless a roll is due, or the write fails."""
    end_offset = assembled[1]
    relative_end = end_offset - segment.base_offset
    if (
        relative_end > RELATIVE_OFFSET_MAX
        or now_ms - segment.first_append_ms >= config.segment_ms
        or (config.segment_records is not None and relative_end > config.segment_records)
    ):
        return False
    messages = end_offset - segment.end_offset
    try:
        segment.file().write_at_end((assembled[0],))
    except OSError as error:
        sync.cut_back(segment, error)
        return False
    try:
        if written is not None:
            written(segment.end_offset)
    finally:  # the file has them, whatever became of that
        segment.appended_together(assembled, leader_epoch, now_ms)
        sync.appended(config, messages, now_ms)
    return True
