"""The replay table: a Delta table next to the dead-letter table, with all replayed dead letters.

A replay's dead letters are committed to it at once, before any sink has their rows. The commits of
the sinks have the replay's number as their txnVersion. So the next command detects an unfinished
replay and finishes it with the same dead letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.dead_letters.routing import Letter
from pipelines.exactly_once.offset_chain import Commit
from pipelines.model.pipeline import Pipeline, Source
from pipelines.model.schema_evolution import Steps
from pipelines.sinks.commits import NO_BATCH, Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import change_columns, ensure_table, found_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORD = ("topic", "partition", "offset", "timestamp")
"""The key of a record within its source; in a recreated topic the timestamp differs."""
LETTER = (*RECORD, "sink")
"""The key of a dead letter within its source. Its sink is null if it belongs to all of them."""
_PLANNED = "replay BIGINT, topic STRING, partition INT, offset BIGINT, sinks ARRAY<STRING>"
_COLUMNS = f"pipeline STRING, source STRING, {_PLANNED}, timestamp TIMESTAMP"
_COLUMNS += ", replayed_at TIMESTAMP, sink STRING"

Planned = Mapping[Letter, Sequence[str]]
"""Dead letter → the sinks that it goes to; none if all have its rows."""


def same_letter(one: DataFrame, other: DataFrame, names: Sequence[str] = LETTER) -> Column:
    """The condition that two rows are the same dead letter of a source; a null equals a null."""
    return reduce(and_, (one[name].eqNullSafe(other[name]) for name in names))


def with_sink(letters: DataFrame) -> DataFrame:
    """Rows with a column `sink`, which tables of earlier versions lack."""
    from pyspark.sql import functions as F  # noqa: N812

    there = "sink" in letters.columns
    return letters if there else letters.withColumn("sink", F.lit(None).cast("string"))


class ReplayTable:
    """The replays of one source's dead letters. Mutable: the chain and the newest number.

    `told`: the table's path, or its name in the catalog."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, source: Source, run: str) -> None:
        self._spark, self._pipeline, self._source = spark, pipeline, source
        self._link = Link(pipeline=pipeline.name, sink=f"replays.{source.name}", run=run)
        self.told = f"{pipeline.dead_letters}_replayed"
        self._is_named = pipeline.dead_letter_table is not None
        path = found_folder(spark, self.told) if self._is_named else self.told
        self._chain = self._chain_at(path) if path else None
        found = self._chain.load() if self._chain else None
        self.newest = found.txn_version if found is not None else 0

    def _chain_at(self, path: str) -> DeltaChain:
        return DeltaChain(self._spark, path, self._link)

    def rows(self) -> DataFrame:
        """The replayed dead letters of this source."""
        from pyspark.sql import functions as F  # noqa: N812

        if self._chain is None or not self._chain.is_there():
            return self._spark.createDataFrame([], _COLUMNS)
        table = with_sink(self._spark.read.format("delta").load(self._chain.path))
        ours = F.col("pipeline") == self._pipeline.name
        return table.where(ours & (F.col("source") == self._source.name))

    def of(self, replay: int) -> DataFrame:
        """The dead letters of one replay, with their sinks."""
        return self.rows().where(f"replay = {replay}").select(*LETTER, "sinks")

    def plan(self, letters: DataFrame, planned: Planned) -> int:
        """Commit the next replay's plan; return its number. `letters`: with the columns of LETTER.

        Raises StoppedError if another replay has started meanwhile.
        """
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        path, name = (None, self.told) if self._is_named else (self.told, None)
        schema = StructType.fromDDL(_COLUMNS)
        folder = ensure_table(self._spark, path, name, schema)
        if "sink" not in self._spark.read.format("delta").load(folder).columns:
            change_columns(self._spark, folder, Steps(add=((("sink",), "string"),)))
        self._chain = self._chain_at(folder)
        # Loaded before the number is chosen: of two replays at once, the second to commit it stops.
        self._chain.load()
        number = self.newest + 1
        rows = [
            (number, *letter.partition, letter.offset, [*sinks], letter.sink)
            for letter, sinks in planned.items()
        ]
        frame = self._spark.createDataFrame(rows, f"{_PLANNED}, sink STRING")
        places = [*RECORD[:3], "sink"]
        times = letters.select(*LETTER)
        frame = frame.join(times, same_letter(frame, times, places)).select(
            F.lit(self._pipeline.name).alias("pipeline"),
            F.lit(self._source.name).alias("source"),
            "replay",
            *[frame[name] for name in places[:3]],
            "sinks",
            "timestamp",
            F.current_timestamp().alias("replayed_at"),
            frame["sink"],
        )
        commit = Commit(start={}, end=TopicOffsets(), txn_version=number)
        self._chain.append(frame, commit, NO_BATCH)
        self.newest = number
        return number
