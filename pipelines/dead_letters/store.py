"""Dead letters in Delta tables, read and written with Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.dead_letters.left_out import RECORDS_MAX, FailedRecord
from pipelines.dead_letters.replay_table import LETTER, RECORD, same_letter
from pipelines.dead_letters.writer import Letters, LettersStoppedError
from pipelines.exactly_once.offset_chain import Commit
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.delta_commits import DeltaChain
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


class DeltaSinkLetters:
    """`prepared_sink.OwnLetters` in a Delta table: of the records for which an expression of one
    sink fails. Mutable: the chain, once it is open.

    They have a chain of their own in the dead-letter table, without offsets: a batch without such
    records makes no commit there, and the sink's commit lists what it left out (`left_out.py`). A
    run that was killed between both commits finds its dead letters in the table and leaves the same
    records out. The chain is opened at the first failure: until then nothing is read."""

    def __init__(self, open_chain: Callable[[], DeltaChain], source: str, sink: str) -> None:
        """`open_chain`: makes the chain; called at the first failure."""
        self._open_chain = open_chain
        self._source, self._sink = source, sink
        self._chain: DeltaChain | None = None
        self._txn_version = 0

    def there(self, frame: DataFrame) -> list[FailedRecord]:
        """The records of a micro-batch that an attempt before this one left out."""
        letters = self._letters(frame.sparkSession)
        same = same_letter(letters, frame, RECORD)
        found = letters.join(frame, same, "left_semi").limit(RECORDS_MAX)
        rows = found.select("topic", "partition", "offset", "stage", "reason").collect()
        return [
            FailedRecord(topic=row[0], partition=row[1], offset=row[2], stage=row[3], reason=row[4])
            for row in rows
        ]

    def write(self, letters: DataFrame, batch_id: int) -> int:
        """Commit those that the table lacks; return their number. Raises LettersStoppedError."""
        chain = self._opened()
        there = self._letters(letters.sparkSession)
        held, count = held_and_counted(
            letters.join(there, same_letter(letters, there, LETTER), "left_anti"), "true"
        )
        try:
            if count:
                version = max(self._txn_version, chain.tip.txn_version if chain.tip else 0)
                commit = Commit(start={}, end=TopicOffsets(), txn_version=version + 1)
                chain.append(held.coalesce(-(-count // FILE_LETTERS)), commit, batch_id)
        except StoppedError as stopped:
            raise LettersStoppedError(chain, stopped.stop) from stopped
        finally:
            held.unpersist()
        return count

    def _letters(self, spark: Any) -> DataFrame:
        """The sink's dead letters in the table."""
        # The chain first: a commit of another run after this read must stop the next append.
        table = spark.read.format("delta").load(self._opened().path)
        found: DataFrame = table.where(table["source"] == self._source)
        return found.where(table["sink"] == self._sink)

    def _opened(self) -> DeltaChain:
        if self._chain is None:
            chain = self._open_chain()
            found = chain.load()
            self._txn_version = found.txn_version if found is not None else 0
            self._chain = chain
        return self._chain
