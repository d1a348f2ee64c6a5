"""The append of several batches that a follower has copied, one after the other, by one write.

Rules: all of the batches are appended or none; the log's files and facts are those that one append
per batch leaves. A roll, a sync of the append itself, a log that has failed, a write that fails:
the caller appends batch by batch, which handles each of them.
"""

from collections.abc import Sequence

from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log_sync import LogSync
from josefine_broker.host.log.segment import RELATIVE_OFFSET_MAX, Segment
from josefine_broker.records.batch import LENGTH_OVERHEAD_BYTES, BatchHeader
from josefine_broker.records.plain_produce import Assembled


def append_run(
    segment: Segment,
    sync: LogSync,
    config: LogConfig,
    data: memoryview,
    headers: Sequence[BatchHeader],
    now_ms: int,
) -> bool:
    """Whether `data` was appended: exactly the batches of `headers`, with consecutive offsets and
    one leader epoch. `segment` is the log's last."""
    # An empty segment takes any batch, but what follows would have to roll.
    if sync.failure or segment.size_bytes == 0:
        return False
    # A number of messages per sync, above one, is counted batch by batch.
    if config.flush_messages is not None and not sync.is_grouped(config):
        return False
    base_offset, leader_epoch = headers[0].base_offset, headers[0].leader_epoch
    end_offset = headers[-1].end_offset
    assert base_offset >= segment.end_offset, f"{base_offset} is below {segment.end_offset}"
    assert leader_epoch >= segment.last_leader_epoch, f"leader epoch {leader_epoch} is old"
    relative_end = end_offset - segment.base_offset
    if (
        segment.size_bytes + len(data) > config.segment_bytes
        or relative_end > RELATIVE_OFFSET_MAX
        or now_ms - segment.first_append_ms >= config.segment_ms
        or (config.segment_records is not None and relative_end > config.segment_records)
    ):
        return False
    assembled = _assembled(segment, data, headers, config.index_interval_bytes)
    try:
        segment.file().write_at_end((data,))
    except OSError as error:
        sync.cut_back(segment, error)
        return False
    segment.appended_together(assembled, leader_epoch, now_ms)
    sync.appended(config, sum(each.record_count for each in headers), now_ms)
    return True


def _assembled(
    segment: Segment, data: memoryview, headers: Sequence[BatchHeader], interval_bytes: int
) -> Assembled:
    """What the segment's facts and its index gain from these batches, as from one after the
    other."""
    position, indexed = segment.size_bytes, segment.last_index_position
    max_ms, max_offset = segment.max_timestamp_ms, -1
    marks = []
    for header in headers:
        if indexed < 0 or position - indexed >= interval_bytes:
            marks.append((header.base_offset, position, max_ms))
            indexed = position
        if header.max_timestamp_ms > max_ms and header.record_count:
            max_ms, max_offset = header.max_timestamp_ms, header.base_offset
        position += header.batch_length + LENGTH_OVERHEAD_BYTES
    assert position == segment.size_bytes + len(data), "not exactly these batches"
    return data, headers[-1].end_offset, max_ms, max_offset, marks
