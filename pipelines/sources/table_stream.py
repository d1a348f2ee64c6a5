"""The Delta source of a pipeline: positions in its log, the stream, the checkpoint that continues.

Delta's own streaming source reads the rows. Its offsets are positions of the sink's chain, see
`exactly_once/table_position.py`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from uuid import uuid4

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.base.errors import RunError, SetupError
from pipelines.base.quoting import quoted
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import Start
from pipelines.exactly_once.offset_chain import Batch
from pipelines.exactly_once.table_position import (
    TABLE,
    VERSION,
    checkpoint_of,
    position_of,
    position_since,
)
from pipelines.model.pipeline import Source
from pipelines.model.table_stream import OnChange
from pipelines.sources.josefine import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COMMIT = ".json"
_ON_CHANGE = {OnChange.IGNORE_DELETES: "ignoreDeletes", OnChange.SKIP_CHANGES: "skipChangeCommits"}


class TableKind:
    """`sources.josefine.SourceKind` of Delta tables."""

    def look(self, source: Source) -> Topics:
        """The table's versions and id. Raises SetupError if there is no table."""
        assert source.local is not None
        path = source.local.path
        versions, table_id = _seen(path)
        if not versions:
            raise SetupError(
                f"source `{source.name}`: {path} is not a Delta table: write it first, or fix the "
                f"path at {source.place}"
            )
        return Topics(
            earliest={TABLE: min(versions) * VERSION},
            latest=TopicOffsets(
                ends={TABLE: (max(versions) + 1) * VERSION}, topic_ids={TABLE.topic: table_id}
            ),
        )

    def committed(self, source: Source, group: str, topics: Topics) -> ByPartition:
        """Never used: a table has no consumer groups."""
        return {}

    def at_time(self, source: Source, time_ms: int, topics: Topics) -> ByPartition:
        """Never used: a table has no `stop`."""
        return {}

    def open(self, spark: SparkSession, source: Source, at: TopicOffsets | None) -> DataFrame:
        """The stream. `at` is not used: a stream continues by its checkpoint (`continue_at`)."""
        assert source.local is not None
        stream = spark.readStream.format("delta").options(**options_of(source))
        names = spark.createDataFrame([], _ddl(source)).columns
        return stream.load(source.local.path).select(*map(quoted, names))

    def read(
        self, spark: SparkSession, source: Source, batch: Batch, *, marks_unreadable: bool = False
    ) -> DataFrame:
        """Never used: the file's checks refuse what reads a batch again, a state and dead letters.
        Raises RunError."""
        raise RunError(f"source `{source.name}`: a batch of a table cannot be read again")

    def parse(self, text: str) -> TopicOffsets:
        return position_of(json.loads(text))

    def advise(self, source: Source, group: str, ends: ByPartition) -> str:
        """A table has no consumer groups."""
        return ""


def options_of(source: Source) -> dict[str, str]:
    """The options of `format("delta")` for a source of the file."""
    stream = source.table_stream
    assert stream is not None
    said: dict[str, object] = {
        "startingVersion": stream.version,
        "readChangeFeed": "true" if stream.changes else None,
        "maxFilesPerTrigger": source.limit.files,
        "maxBytesPerTrigger": None if source.limit.bytes is None else f"{source.limit.bytes}b",
    }
    if stream.on_change in _ON_CHANGE:
        said[_ON_CHANGE[stream.on_change]] = "true"
    return {name: str(value) for name, value in said.items() if value is not None}


def refuse_columns(spark: SparkSession, source: Source) -> None:
    """Raise RunError if the table's columns are not those of the file."""
    assert source.local is not None
    assert source.table_stream is not None
    there = spark.read.format("delta").load(source.local.path)
    have = {name.lower(): kind for name, kind in there.dtypes}
    wrong = [
        f"`{name}` is {have[name.lower()].upper()}, not {kind.upper()}"
        if name.lower() in have
        else f"no column `{name}`"
        for name, kind in spark.createDataFrame([], source.table_stream.schema).dtypes
        if have.get(name.lower()) != kind
    ]
    if wrong:
        said = f"its `schema` is not that of {source.local.path}: {', '.join(wrong)}"
        raise RunError(f"source `{source.name}`: {said}; fix it at {source.place}")


def first_position(spark: SparkSession, source: Source, topics: Topics, now_ms: int) -> int:
    """The position at which a stream starts that has none yet. Raises RunError."""
    stream = source.table_stream
    assert stream is not None
    assert source.local is not None
    end = topics.latest.ends[TABLE]
    if stream.latest:
        return end
    since_ms = stream.time_ms if stream.ago_ms is None else max(0, now_ms - stream.ago_ms)
    assert since_ms is not None
    found = position_since(since_ms, _times(spark, source.local.path), end)
    if isinstance(found, str):
        raise RunError(f"source `{source.name}`: `start` of {source.local.path}: {found}")
    return found


def _times(spark: SparkSession, path: str) -> dict[int, int]:
    """The commits of the table's log: version → its time since 1970."""
    from delta.tables import DeltaTable

    history = DeltaTable.forPath(spark, path).history()
    rows = history.selectExpr("version", "unix_millis(timestamp) as time_ms").collect()
    return {row.version: row.time_ms for row in rows}


def continue_at(files: CheckpointFiles, start: Start, end: int) -> None:
    """Write the checkpoint of a sink that lost it, so that its stream continues at the sink's last
    commit. A checkpoint with a finished micro-batch stays as it is. `end`: the position of the
    table's next commit."""
    if start.tip is None or TABLE not in start.tip.reached.ends:
        return
    there = files.read()
    if there is not None and there.committed is not None:
        return
    query_id = files.query_id() or str(uuid4())
    is_last = start.tip.reached.ends[TABLE] >= end
    for name, text in checkpoint_of(start.tip.reached, query_id, is_last=is_last):
        files.write(name, text)


def _ddl(source: Source) -> str:
    assert source.table_stream is not None
    return source.table_stream.ddl


def _seen(path: str) -> tuple[list[int], str]:
    """The versions in the table's log and its id; none if there is no table."""
    from josefine_spark.sessions.registration import active_session
    from pipelines.spark.files import HadoopFiles

    spark, log = active_session(), f"{path}/_delta_log"
    if spark is not None:
        names = HadoopFiles(spark).names(log)
    else:  # `status` and others that start no Spark
        names = os.listdir(log) if os.path.isdir(log) else []
    numbers = [name.removesuffix(_COMMIT) for name in names if name.endswith(_COMMIT)]
    versions = [int(number) for number in numbers if number.isdigit()]
    if not versions:
        return [], ""
    if spark is not None and "://" in path:
        from delta.tables import DeltaTable as SparkTable

        (row,) = SparkTable.forPath(spark, path).detail().select("id").collect()
        return versions, str(row.id)
    from deltalake import DeltaTable

    return versions, str(DeltaTable(path).metadata().id)
