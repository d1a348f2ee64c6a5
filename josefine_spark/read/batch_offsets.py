"""Start and end offsets of a stream's batch, per partition. Pure.

Rules: a lost range is skipped once and recorded in the offset (`lost`), so that a replay and the
tasks skip the same range; a partition keeps the offset at which the query started to read it; a
topic that does not exist now keeps its offsets; an offset without progress stays equal, including
its `lost`.
"""

from collections.abc import Iterable, Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from josefine_spark.read.data_loss import Loss, Reason
from josefine_spark.read.offsets import Bounds


def positions(
    begin: TopicOffsets, now: TopicOffsets, bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, int]:
    """The next offset to read in each existing partition, within its bounds."""
    return {
        tp: min(max(begin.start_of(tp, now), bound.earliest), bound.latest)
        for tp, bound in bounds.items()
    }


def batch_end(
    begin: TopicOffsets,
    now: TopicOffsets,
    at: ByPartition,
    ends: ByPartition,
    losses: Iterable[Loss],
) -> TopicOffsets:
    """The offset for Spark of a batch from `at` to `ends`; `begin` when there is no progress."""
    offsets = dict(ends)
    for tp, offset in begin.ends.items():
        # A partition that is missing now keeps its offset: if it returns, nothing is read twice.
        if now.topic_ids.get(tp.topic) in (None, begin.topic_ids[tp.topic]):
            offsets.setdefault(tp, offset)
    ids = {
        tp.topic: now.topic_ids.get(tp.topic, begin.topic_ids.get(tp.topic, "")) for tp in offsets
    }
    if offsets == begin.ends and ids == begin.topic_ids:
        return begin
    # `first` lets a replay start a new partition at the same offset even if retention has moved it.
    first = {}
    for tp in offsets:
        known = tp in begin.first and begin.topic_ids.get(tp.topic) == ids[tp.topic]
        first[tp] = begin.first[tp] if known else at[tp]
    lost = {
        loss.partition: (loss.start, loss.end)
        for loss in losses
        if loss.reason is Reason.RECREATED or offsets[loss.partition] != begin.ends[loss.partition]
    }
    return TopicOffsets(ends=offsets, first=first, topic_ids=ids, lost=lost)
