"""The first position of a table's stream, committed to the sink before any row is read.

`latest` and a time name another commit at each look. So the position is a commit of the sink's
chain without rows, like that of any batch: a checkpoint that is lost before the first batch then
costs no row and repeats none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base import failpoints
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import Start
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.exactly_once.table_position import TABLE
from pipelines.model.pipeline import Source
from pipelines.sinks.target import SinkChain
from pipelines.sources.josefine import Topics
from pipelines.sources.table_stream import continue_at, first_position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def begun(
    spark: SparkSession,
    source: Source,
    chain: SinkChain,
    files: CheckpointFiles,
    start: Start,
    topics: Topics,
    now_ms: int,
) -> Start:
    """The start of a table's stream, with its first position if it has none yet, and its checkpoint
    written again if it is lost. Of another source: the same start. Raises RunError."""
    if source.table_stream is None:
        return start
    if source.table_stream.is_settled_once and start.tip is None:
        start = _first(spark, source, chain, files, start, topics, now_ms)
    continue_at(files, start, topics.latest.ends[TABLE])
    return start


def _first(
    spark: SparkSession,
    source: Source,
    chain: SinkChain,
    files: CheckpointFiles,
    start: Start,
    topics: Topics,
    now_ms: int,
) -> Start:
    """The start at the first position, which is a commit of the chain then. A checkpoint with a
    planned batch has a position already."""
    there = files.read()
    if there is not None and there.planned is not None and not start.set_checkpoint_aside:
        return start
    at = TopicOffsets(
        ends={TABLE: first_position(spark, source, topics, now_ms)},
        topic_ids=dict(topics.latest.topic_ids),
    )
    failpoints.hit("mid_start", 1)
    chain.move(Commit(start=at.ends, end=at, txn_version=1))
    failpoints.hit("mid_start", 2)
    tip = Tip(reached=at, txn_version=1)
    chain.follow(tip)
    return Start(at=at.ends, tip=tip, set_checkpoint_aside=start.set_checkpoint_aside)
