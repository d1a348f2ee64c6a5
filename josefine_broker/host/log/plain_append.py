"""The append of several plain produce requests to one log, by one write.

Rules: all of the batches are appended or none; the log's files and facts are those that one append
per batch leaves. A roll, a sync of the append itself, a log that has failed: none of them is plain,
and the caller takes the general path.
"""

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log_sync import LogSync
from josefine_broker.host.log.segment import RELATIVE_OFFSET_MAX, Segment
from josefine_broker.records.plain_produce import PlainRequest, compiled


def append_plain(
    segment: Segment,
    sync: LogSync,
    config: LogConfig,
    requests: list[PlainRequest],
    size: int,
    leader_epoch: LeaderEpoch,
    now_ms: int,
) -> int | None:
    """The offset of the first batch, or None: nothing was appended. `segment` is the log's last."""
    if compiled is None or sync.failure:
        return None
    # A number of messages per sync, above one, is counted batch by batch.
    if config.flush_messages is not None and not sync.is_grouped(config):
        return None
    assert leader_epoch >= segment.last_leader_epoch, f"leader epoch {leader_epoch} is old"
    base_offset = segment.end_offset
    # An empty segment takes any batch, but what follows would have to roll.
    if segment.size_bytes == 0 or segment.size_bytes + size > config.segment_bytes:
        return None
    assembled = compiled.assemble(
        requests, size, base_offset, leader_epoch, segment.size_bytes, segment.last_index_position,
        config.index_interval_bytes, segment.max_timestamp_ms,
    )  # fmt: skip
    end_offset = assembled[1]
    relative_end = end_offset - segment.base_offset
    if (
        relative_end > RELATIVE_OFFSET_MAX
        or now_ms - segment.first_append_ms >= config.segment_ms
        or (config.segment_records is not None and relative_end > config.segment_records)
    ):
        return None
    try:
        segment.file().write_at_end((assembled[0],))
    except OSError as error:
        sync.cut_back(segment, error)
        return None
    segment.appended_together(assembled, leader_epoch, now_ms)
    sync.appended(config, end_offset - base_offset, now_ms)
    return base_offset
