"""What a sink can no longer get from its topics, and how its chain passes over it. Pure.

A range is lost that lies between where the sink stands and where its partition begins now:
retention or DeleteRecords was faster than the pipeline. It may be passed over, once it is recorded.
A partition that ends before where the sink stands is another matter: its brokers may only be
recovering, and the offsets will be given to other records. That is never passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicIds, TopicOffsets
from josefine_spark.read.data_loss import Loss, Reason, find_losses
from josefine_spark.read.offsets import Bounds
from pipelines.exactly_once.offset_chain import Commit, Stop, Tip, Verdict
from pipelines.exactly_once.reconcile import Checkpoint, Start


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Offsets from `start` up to, not including, `end` that were gone before they were read."""

    partition: TopicPartition
    topic_id: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition} [{self.start}, {self.end})"


def standing(start: Start, checkpoint: Checkpoint | None) -> TopicOffsets:
    """Where the sink goes on: the table's end, and where a planned batch begins what is new."""
    planned = None if checkpoint is None or start.set_checkpoint_aside else checkpoint.planned
    ends = dict(planned.end.first) if planned else {}
    ids = dict(planned.end.topic_ids) if planned else {}
    if start.tip is not None:
        ends |= start.tip.reached.ends
        ids |= start.tip.reached.topic_ids
    return TopicOffsets(ends=ends, topic_ids=ids)


def losses(
    at: TopicOffsets, topic_ids: TopicIds, bounds: Mapping[TopicPartition, Bounds], *, skip: bool
) -> tuple[LostRange, ...] | Stop:
    """The ranges to record and pass over, none when nothing is lost; a Stop without `skip`."""
    found = find_losses(at, topic_ids, bounds)
    shorter = [loss for loss in found if loss.reason is Reason.TRUNCATED]
    if shorter:
        return _stop(Verdict.TOPIC_SHORTER, shorter)
    behind = [loss for loss in found if loss.reason is Reason.RETENTION]
    if behind and not skip:
        return _stop(Verdict.RECORDS_LOST, behind)
    return tuple(
        LostRange(
            partition=loss.partition,
            topic_id=at.topic_ids.get(loss.partition.topic, ""),
            start=loss.start,
            end=loss.end,
        )
        for loss in behind
        if loss.end is not None
    )


def _stop(verdict: Verdict, found: Iterable[Loss]) -> Stop:
    detail = ", ".join(f"{loss.partition} offsets [{loss.start}, {loss.end})" for loss in found)
    return Stop(verdict=verdict, detail=detail)


def passing(tip: Tip | None, at: TopicOffsets, lost: Iterable[LostRange]) -> Commit | None:
    """The commit without rows that moves a chain behind what is lost; None when it is there."""
    moved = {each.partition: each.end for each in lost if at.ends.get(each.partition, 0) < each.end}
    if not moved:
        return None
    return Commit(
        start=at.ends,
        end=TopicOffsets(ends={**at.ends, **moved}, topic_ids=at.topic_ids),
        txn_version=(tip.txn_version if tip else 0) + 1,
    )


def unrecorded(lost: Iterable[LostRange], recorded: Iterable[LostRange]) -> list[LostRange]:
    """The parts of `lost` that are in no range that was recorded before."""
    left = []
    known = sorted(recorded, key=lambda each: each.start)
    for each in lost:
        begin = each.start
        for there in known:
            same = (there.partition, there.topic_id) == (each.partition, each.topic_id)
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
