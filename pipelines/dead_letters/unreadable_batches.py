"""Unreadable record batches that a sink skips on request, after it recorded them in its loss table.

A record batch with a valid checksum and unreadable records fails the Spark task that reads it. With
`on_data_loss: skip_and_record` the micro-batch is read again, with each such record batch as a
marked row (`unreadableBatches=asRow`). The marked rows go into the loss table, the others are the
micro-batch. So a source without unreadable record batches pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from josefine_broker.base.errors import PRODUCED_UNREADABLE
from josefine_broker.base.ids import TopicPartition
from pipelines.exactly_once.data_loss import LostRange
from pipelines.exactly_once.offset_chain import Batch
from pipelines.formats.decode import UNREADABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def is_unreadable_batch(error: BaseException) -> bool:
    """Whether a task failed on one. Spark passes on only the text of the error."""
    return PRODUCED_UNREADABLE in str(error)


def skipped_and_recorded(
    marked: DataFrame, batch: Batch, record: Callable[[Sequence[LostRange]], None]
) -> DataFrame:
    """The micro-batch's rows without unreadable record batches, recorded first. `marked`: the
    micro-batch read with `asRow`; `record`: writes to the loss table. Raises its errors."""
    is_marked = marked[UNREADABLE].isNotNull()
    rows = marked.where(is_marked).select(
        "topic", "partition", "offset", f"{UNREADABLE}.end_offset"
    )
    lost = []
    for topic, number, start, end in sorted(tuple(row) for row in rows.collect()):
        partition = TopicPartition(topic, number)
        # The part after the micro-batch's end has a marked row in the next micro-batch.
        lost.append(
            LostRange(
                partition=partition,
                topic_id=batch.end.topic_ids.get(topic, ""),
                start=start,
                end=min(end, batch.end.ends[partition]),
            )
        )
    if lost:
        record(lost)
    return marked.where(~is_marked).drop(UNREADABLE)
