"""A log was synced for its group (`host/log/group_sync.py`): what that means for its partition.

Rules: a leader's own part of the high watermark is how far its log is durable, so the high
watermark may move now; a follower acknowledges by the offset that it fetches from, so it fetches on
only now. After a sync that failed the log is not written any more: whoever waits for it is told.
"""

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.replicas.following import fetch_on


def log_synced(ctx: Context, tp: TopicPartition) -> None:
    """A sync of its log has ended, well or not; nothing happens if the partition is gone."""
    hosted = ctx.hosted.partitions.get(tp)
    if hosted is None:
        return
    now_ms = ctx.clock.monotonic_ms()
    partition, log = hosted.partition, hosted.log
    if partition.is_leader:
        if partition.advance_high_watermark(log.durable_end_offset) or log.failure:
            ctx.parked.wake(tp, now_ms)
    else:
        fetch_on(ctx, tp, hosted, now_ms)
