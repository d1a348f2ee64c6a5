"""Detection of lost records: offset ranges, partitions and topics that a stream can no longer read.
Pure.

A record is lost when the log starts after the stream's offset (retention, DeleteRecords), when the
log ends before the stream's offset (an unclean leader election, a restored disk), or when the topic
was deleted, also if a new one has its name. A task may find one more kind: a batch that was
produced with content that cannot be decoded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.errors import DataLossError
from josefine_spark.base.topic_offsets import TopicIds, TopicOffsets
from josefine_spark.read.offsets import Bounds


class Reason(Enum):
    """Why records can no longer be read."""

    RETENTION = "the log starts after them"
    TRUNCATED = "the log ends before them"
    RECREATED = "the topic was deleted and created again"
    GONE = "the partition does not exist any more"
    UNREADABLE = "they were produced in a batch that cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One lost range; `end` is None when the number of lost records is unknown."""

    partition: TopicPartition
    start: int
    end: int | None
    reason: Reason

    def __str__(self) -> str:
        end = "unknown" if self.end is None else self.end
        return f"{self.partition} offsets [{self.start}, {end}): {self.reason.value}"


def find_losses(
    start: TopicOffsets,
    topic_ids: TopicIds,
    bounds: Mapping[TopicPartition, Bounds],
) -> list[Loss]:
    """The losses of a stream that has read up to `start`, given the topics' current bounds."""
    losses = []
    for tp, offset in sorted(start.ends.items()):
        known_id = start.topic_ids.get(tp.topic)
        if tp not in bounds:
            losses.append(Loss(partition=tp, start=offset, end=None, reason=Reason.GONE))
        elif known_id != topic_ids.get(tp.topic):
            losses.append(Loss(partition=tp, start=offset, end=None, reason=Reason.RECREATED))
        elif offset < bounds[tp].earliest:
            end = bounds[tp].earliest
            losses.append(Loss(partition=tp, start=offset, end=end, reason=Reason.RETENTION))
        elif offset > bounds[tp].latest:
            end = offset
            start_lost = bounds[tp].latest
            losses.append(Loss(partition=tp, start=start_lost, end=end, reason=Reason.TRUNCATED))
    return losses


def data_loss_error(losses: Iterable[Loss]) -> DataLossError:
    """All ranges in one message."""
    listed = "; ".join(str(loss) for loss in losses)
    return DataLossError(
        f"records are lost: {listed}. Set failOnDataLoss=false to continue with the records that "
        "are left"
    )
