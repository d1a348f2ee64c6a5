"""The loss table: a Delta table of the offset ranges that a sink never got, one row per range.

It is next to the sink's table, or next to the checkpoint of a sink without a Delta table. Ranges
are written before the sink's chain skips them, in a chain of their own, and only if the table lacks
them. So each range is in it once, whatever crashes in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.data_loss import LostRange, unrecorded
from pipelines.exactly_once.offset_chain import Commit
from pipelines.sinks.commits import NO_BATCH, Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import ensure_table
from pipelines.sinks.target import TargetRun

_COLUMNS = (
    "pipeline STRING, sink STRING, topic STRING, topic_id STRING, partition INT, "
    "start_offset BIGINT, end_offset BIGINT"
)
COLUMNS = tuple(column.split()[0] for column in _COLUMNS.split(", "))
"""The columns of a range, without the time of its record."""


def record(run: TargetRun, lost: Sequence[LostRange]) -> None:
    """Write the ranges that the run's loss table lacks. Raises StoppedError if another run is
    writing."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    spark, link = run.session(), run.link
    schema = StructType.fromDDL(f"{_COLUMNS}, recorded_at TIMESTAMP")
    path = ensure_table(spark, run.losses.path, run.losses.table, schema)
    name = Link(pipeline=link.pipeline, sink=f"lost.{link.sink}", run=link.run)
    # A chain of its own, so that of two runs at once only one records the ranges.
    chain = DeltaChain(spark, path, name)
    found = chain.load()
    there = spark.read.format("delta").load(path)
    mine = there.where((F.col("pipeline") == link.pipeline) & (F.col("sink") == link.sink))
    recorded = [range_of(row) for row in mine.select(*COLUMNS).collect()]
    new = unrecorded(lost, recorded)
    if not new:
        return
    rows = [row_of(link, each) for each in new]
    frame = spark.createDataFrame(rows, _COLUMNS).withColumn("recorded_at", F.current_timestamp())
    chain.append(frame, commit_of(new, found.txn_version if found is not None else 0), NO_BATCH)


def row_of(link: Link, lost: LostRange) -> tuple[str, str, str, str, int, int, int]:
    """A range of this sink as a row of `COLUMNS`."""
    topic, number = lost.partition
    return (link.pipeline, link.sink, topic, lost.topic_id, number, lost.start, lost.end)


def range_of(row: Sequence[Any]) -> LostRange:
    """The reverse of `row_of`."""
    _, _, topic, topic_id, number, start, end = row
    return LostRange(
        partition=TopicPartition(topic, number), topic_id=topic_id, start=start, end=end
    )


def commit_of(new: Sequence[LostRange], version: int) -> Commit:
    """The commit of these ranges, after the one of this version."""
    ends = TopicOffsets(
        ends={each.partition: each.end for each in new},
        topic_ids={each.partition.topic: each.topic_id for each in new},
    )
    return Commit(start={}, end=ends, txn_version=version + 1)
