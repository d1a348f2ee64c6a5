"""The replay table: a Delta table next to the dead-letter table, with all replayed dead letters.

A replay's dead letters are committed to it at once, before any sink has their rows. The commits of
the sinks have the replay's number as their txnVersion. So the next command detects an unfinished
replay and finishes it with the same dead letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.dead_letters.routing import Letter
from pipelines.exactly_once.offset_chain import Commit
from pipelines.model.pipeline import Pipeline, Source
from pipelines.sinks.commits import NO_BATCH, Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import ensure_table, found_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD = ("topic", "partition", "offset", "timestamp")
"""The key of a dead letter within its source; in a recreated topic the timestamp differs."""
_PLANNED = "replay BIGINT, topic STRING, partition INT, offset BIGINT, sinks ARRAY<STRING>"
_COLUMNS = f"pipeline STRING, source STRING, {_PLANNED}, timestamp TIMESTAMP, replayed_at TIMESTAMP"

Planned = Mapping[Letter, Sequence[str]]
"""Dead letter → the sinks that it goes to; none if all have its rows."""


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
        table = self._spark.read.format("delta").load(self._chain.path)
        ours = F.col("pipeline") == self._pipeline.name
        return table.where(ours & (F.col("source") == self._source.name))

    def of(self, replay: int) -> DataFrame:
        """The dead letters of one replay, with their sinks."""
        return self.rows().where(f"replay = {replay}").select(*RECORD, "sinks")

    def plan(self, letters: DataFrame, planned: Planned) -> int:
        """Commit the next replay's plan; return its number. `letters`: with the columns of RECORD.

        Raises StoppedError if another replay has started meanwhile.
        """
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        path, name = (None, self.told) if self._is_named else (self.told, None)
        schema = StructType.fromDDL(_COLUMNS)
        self._chain = self._chain_at(ensure_table(self._spark, path, name, schema))
        # Loaded before the number is chosen: of two replays at once, the second to commit it stops.
        self._chain.load()
        number = self.newest + 1
        rows = [
            (number, *letter.partition, letter.offset, [*sinks])
            for letter, sinks in planned.items()
        ]
        frame = self._spark.createDataFrame(rows, _PLANNED)
        places = [*RECORD[:3]]
        frame = frame.join(letters.select(*RECORD), places).select(
            F.lit(self._pipeline.name).alias("pipeline"),
            F.lit(self._source.name).alias("source"),
            "replay",
            *places,
            "sinks",
            "timestamp",
            F.current_timestamp().alias("replayed_at"),
        )
        commit = Commit(start={}, end=TopicOffsets(), txn_version=number)
        self._chain.append(frame, commit, NO_BATCH)
        self.newest = number
        return number
