"""Unreadable record batches that a sink skips by decision: recorded in its loss table first.

A record batch whose checksum is right and whose records cannot be read ends the task that meets it.
Where `on_data_loss` is `skip_and_record`, the micro-batch is read again with each such batch as a
marked row (`unreadableBatches=asRow`); what was marked goes into the loss table, the rest is the
micro-batch. So a source without such batches pays nothing.
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
    """Whether a task met one. Spark hands on the text of its error alone."""
    return PRODUCED_UNREADABLE in str(error)


def skipped_and_recorded(
    marked: DataFrame, batch: Batch, record: Callable[[Sequence[LostRange]], None]
) -> DataFrame:
    """The micro-batch's rows without unreadable batches, whose offsets are in the loss table then.
    `marked`: the micro-batch as `asRow` gives it; `record`: into that table. Raises what it does.
    """
    is_marked = marked[UNREADABLE].isNotNull()
    rows = marked.where(is_marked).select(
        "topic", "partition", "offset", f"{UNREADABLE}.end_offset"
    )
    lost = []
    for topic, number, start, end in sorted(tuple(row) for row in rows.collect()):
        partition = TopicPartition(topic, number)
        # What is behind the micro-batch's end has a marked row in the next one.
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
