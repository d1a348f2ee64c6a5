"""The dead letters' Delta table as a run looks into it and writes it, with Spark's frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_spark.topic_offsets import ByPartition
from pipelines.chain import Commit
from pipelines.sink_letters import Letters
from pipelines.stateful import held_and_counted
from pipelines.targets.target import LetterChain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_LETTERS = 10_000
"""Fewer are not worth a task and a file."""


class DeltaLetters:
    """`sink_letters.LetterStore` on Delta tables."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def missing(
        self, chain: LetterChain, source: str, letters: Letters, below: ByPartition
    ) -> DataFrame:
        """By an anti join with the table's own letters of the source."""
        table = self._spark.read.format("delta").load(chain.path)
        there = table.where(table["source"] == source).select("topic", "partition", "offset")
        found: DataFrame = letters(below, there)
        return found

    def is_empty(self, letters: DataFrame) -> bool:
        """Makes one of them, if there is any."""
        return letters.isEmpty()

    def write(self, chain: LetterChain, letters: DataFrame, commit: Commit, batch_id: int) -> int:
        """Makes them once, to be counted and written."""
        held, count = held_and_counted(letters, "true")
        try:
            if count:
                # They are in memory: few need few files, not one of each partition of the topic.
                few = held.coalesce(-(-count // FILE_LETTERS))
                chain.append(few, commit, batch_id)
        finally:
            held.unpersist()
        return count
