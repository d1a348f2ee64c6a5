"""Dead letters in Delta tables, read and written with Spark."""

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
        """An anti join with the source's dead letters in the table."""
        table = self._spark.read.format("delta").load(chain.path)
        there = table.where(table["source"] == source).select("topic", "partition", "offset")
        found: DataFrame = letters(below, there)
        return found

    def is_empty(self, letters: DataFrame) -> bool:
        """Computes one row at most."""
        return letters.isEmpty()

    def write(self, chain: LetterChain, letters: DataFrame, commit: Commit, batch_id: int) -> int:
        """Computes the rows once, to count them and to write them."""
        held, count = held_and_counted(letters, "true")
        try:
            if count:
                # They are in memory: few need few files, not one of each partition of the topic.
                few = held.coalesce(-(-count // FILE_LETTERS))
                chain.append(few, commit, batch_id)
        finally:
            held.unpersist()
        return count
