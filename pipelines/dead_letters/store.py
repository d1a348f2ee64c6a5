"""Dead letters in Delta tables, read and written with Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.dead_letters.writer import Letters
from pipelines.exactly_once.offset_chain import Commit
from pipelines.sinks.target import LetterChain
from pipelines.transforms.stateful import held_and_counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_LETTERS = 10_000
"""Dead letters per task and file: fewer are not worth one."""


class DeltaLetters:
    """`sink_letters.LetterStore` on Delta tables."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def missing(
        self, chain: LetterChain, source: str, letters: Letters, below: ByPartition
    ) -> DataFrame:
        """An anti join with the source's dead letters in the table."""
        table = self._spark.read.format("delta").load(chain.path)
        there = table.where(table["source"] == source)
        there = there.select("topic", "partition", "offset", "value")
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
                # The rows are cached: a few of them need few files, not one per topic partition.
                few = held.coalesce(-(-count // FILE_LETTERS))
                chain.append(few, commit, batch_id)
        finally:
            held.unpersist()
        return count
