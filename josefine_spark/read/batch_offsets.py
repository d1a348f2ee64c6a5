"""Where a batch of a stream begins and ends, in every partition. Pure.

Rules: what is gone is passed over once, and the offset says so (`lost`), so that a replay and the
tasks pass over the same; a partition keeps the place at which the query began it; a topic that is
not there now keeps its place; an offset that did not move is the same offset, `lost` and all.
"""

from collections.abc import Iterable, Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from josefine_spark.read.data_loss import Loss, Reason
from josefine_spark.read.offsets import Bounds


def positions(
    begin: TopicOffsets, now: TopicOffsets, bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, int]:
    """What is to be read next in each partition there is: behind and before what is gone."""
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
    """The offset to give to Spark for a batch from `at` to `ends`; `begin` when there is none."""
    offsets = dict(ends)
    for tp, offset in begin.ends.items():
        # What is not there now keeps its place: should it come back, nothing is read twice.
        if now.topic_ids.get(tp.topic) in (None, begin.topic_ids[tp.topic]):
            offsets.setdefault(tp, offset)
    ids = {
        tp.topic: now.topic_ids.get(tp.topic, begin.topic_ids.get(tp.topic, "")) for tp in offsets
    }
    if offsets == begin.ends and ids == begin.topic_ids:
        return begin
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
