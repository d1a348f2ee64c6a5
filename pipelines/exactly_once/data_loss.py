"""Lost offset ranges of a sink's topics, and the commit that skips them. Pure.

A range is lost when it is between the sink's position and the partition's log start offset:
retention or DeleteRecords was faster than the pipeline. The sink may skip it once it is recorded.
A partition that ends before the sink's position is never skipped: its brokers may still be
recovering, or will assign these offsets to other records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicIds, TopicOffsets
from josefine_spark.read.data_loss import Loss, Reason, find_losses
from josefine_spark.read.offsets import Bounds
from pipelines.exactly_once.checkpoint_start import Checkpoint, Start
from pipelines.exactly_once.offset_chain import Commit, Stop, Tip, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Offsets from `start` (inclusive) to `end` (exclusive) that were deleted before a read."""

    partition: TopicPartition
    topic_id: str
    start: int
    end: int

    def __str__(self) -> str:
        """`topic-0 [5, 9)`: the end is exclusive."""
        return f"{self.partition.topic}-{self.partition.partition} [{self.start}, {self.end})"


def standing(start: Start, checkpoint: Checkpoint | None) -> TopicOffsets:
    """The offsets at which the sink continues: the table's end offsets, and for partitions that
    are new in a planned batch, that batch's first offsets."""
    planned = None if checkpoint is None or start.set_checkpoint_aside else checkpoint.planned
    ends = dict(planned.end.first) if planned else {}
    ids = dict(planned.end.topic_ids) if planned else {}
    if start.tip is not None:
        # The table wins: what it has is committed, what a batch planned is not.
        ends |= start.tip.reached.ends
        ids |= start.tip.reached.topic_ids
    return TopicOffsets(ends=ends, topic_ids=ids)


def losses(
    at: TopicOffsets, topic_ids: TopicIds, bounds: Mapping[TopicPartition, Bounds], *, skip: bool
) -> tuple[LostRange, ...] | Stop:
    """The ranges to record and skip; empty when nothing is lost. Without `skip`, a loss is a Stop.

    A shortened topic is a Stop in any case, and is checked first."""
    found = find_losses(at, topic_ids, bounds)
    # The log ends before the sink's offset, or starts after it: only the second is a loss for good.
    shorter = [loss for loss in found if loss.reason is Reason.TRUNCATED]
    # Checked before the losses: to skip a range of a topic in recovery would lose its records for
    # good.
    if shorter:
        return _stop(Verdict.TOPIC_SHORTER, shorter)
    expired = [loss for loss in found if loss.reason is Reason.RETENTION]
    if expired and not skip:
        return _stop(Verdict.RECORDS_LOST, expired)
    return tuple(
        LostRange(
            partition=loss.partition,
            topic_id=at.topic_ids.get(loss.partition.topic, ""),
            start=loss.start,
            end=loss.end,
        )
        for loss in expired
        # A range without an end cannot be recorded.
        if loss.end is not None
    )


def _stop(verdict: Verdict, found: Iterable[Loss]) -> Stop:
    detail = ", ".join(f"{loss.partition} offsets [{loss.start}, {loss.end})" for loss in found)
    return Stop(verdict=verdict, detail=detail)


def passing(tip: Tip | None, at: TopicOffsets, lost: Iterable[LostRange]) -> Commit | None:
    """The commit without rows that moves a chain past the lost ranges; None if it is past them."""
    # Only forward: a start that repeats after a crash finds the chain past the range.
    moved = {each.partition: each.end for each in lost if at.ends.get(each.partition, 0) < each.end}
    if not moved:
        return None
    return Commit(
        start=at.ends,
        end=TopicOffsets(ends={**at.ends, **moved}, topic_ids=at.topic_ids),
        txn_version=(tip.txn_version if tip else 0) + 1,
    )


def unrecorded(lost: Iterable[LostRange], recorded: Iterable[LostRange]) -> list[LostRange]:
    """The parts of `lost` that no earlier record covers."""
    left = []
    known = sorted(recorded, key=lambda each: each.start)
    for each in lost:
        # The end of what is covered so far. Records are sorted, so one pass finds all holes between
        # them.
        begin = each.start
        for there in known:
            same = (there.partition, there.topic_id) == (each.partition, each.topic_id)
            # A recreated topic has the same name and partitions, and other records.
            if not same or there.end <= begin or there.start >= each.end:
                continue
            if begin < there.start:
                left.append(_part(each, begin, there.start))
            begin = there.end
        if begin < each.end:
            left.append(_part(each, begin, each.end))
    return left


def _part(lost: LostRange, start: int, end: int) -> LostRange:
    return LostRange(partition=lost.partition, topic_id=lost.topic_id, start=start, end=end)
