"""The effect of a finished log sync (`host/log/group_sync.py`) on its partition.

Rules: the leader's own share of the high watermark is its durable end offset, so the high watermark
may move after a sync. A follower acknowledges with its fetch offset, so it fetches further only
after the sync. After a failed sync the log accepts no more writes, and delayed operations that wait
for it fail.
"""

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.replicas.following import fetch_on


def log_synced(ctx: Context, tp: TopicPartition) -> None:
    """A sync of the partition's log has succeeded or failed. A partition that is gone is
    ignored."""
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
