"""The records that a topic has and its table has not, as rows by the writer's own decoders.

Rules: committed records only, from the plan's first offsets to its ends; a record that does not
decode is counted and named, as the writer would put it into the dead letters; memory is bounded by
a budget that all topics of a statement share. Of changes only the latest of each key is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from josefine_lake.query.plan import TABLE_ALONE, Tail
from josefine_lake.query.refusals import QueryError
from josefine_lake.writer.changes import PendingChanges
from josefine_lake.writer.columns import Columns
from josefine_lake.writer.topic_reader import OutOfRangeError, Read
from josefine_spark.base.topic_offsets import ByPartition

WAIT_MS = 500
PATIENCE_MS = 30_000
"""How long a partition may give nothing before its last stable offset."""
NAMED_MAX = 3
MEGABYTE = 1_000_000


class Log(Protocol):
    """The part of `topic_reader.TopicReader` that reads on."""

    def fetch(self, positions: ByPartition, wait_ms: int) -> list[Read]:
        """Committed records from these offsets on; empty after `wait_ms` without one. Raises
        KafkaError, CorruptData, OutOfRangeError."""
        ...

    def topic_id(self) -> str:
        """The topic's id in the last answers, without a request; empty: unknown."""
        ...


@dataclass(slots=True)
class Budget:
    """The bytes of log that a statement may still read. Mutable."""

    bytes_max: int
    used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRows:
    """`rows`: a table with the columns of `Columns.rows`. `named`: the first bad records."""

    rows: Any
    bad: int = 0
    named: tuple[str, ...] = ()


class _Rows:
    """Appended rows, with the interface of `PendingChanges`. Mutable."""

    def __init__(self) -> None:
        self._batches: list[Any] = []

    def add(self, rows: Any) -> None:
        self._batches.append(rows)

    def table(self, schema: pa.Schema) -> Any:
        return pa.Table.from_batches(self._batches, schema)


@dataclass(slots=True)
class _Bad:
    """The records that do not decode. Mutable."""

    count: int = 0
    named: list[str] = field(default_factory=list)

    def add(self, letters: Any) -> None:
        self.count += letters.num_rows
        first = letters.slice(0, max(0, NAMED_MAX - len(self.named)))
        for each in first.select(["partition", "offset", "reason"]).to_pylist():
            self.named.append(f"{each['partition']}:{each['offset']} {each['reason']}")


def read_tail(
    topic_id: str,
    log: Log,
    columns: Columns,
    tail: Tail,
    changes: PendingChanges | None,
    budget: Budget,
    clock_ms: Callable[[], int],
) -> TailRows:
    """Read `tail`. `changes`: collects the rows of a topic in mode upsert, else None.

    Raises QueryError; KafkaError, CorruptData; NewerSchemaError and OSError of a registry."""
    rows, bad = _Rows(), _Bad()
    keep = rows if changes is None else changes
    left = tail.left
    moved_ms = clock_ms()
    while left:
        try:
            reads = log.fetch(left, WAIT_MS)
        except OutOfRangeError as error:
            raise QueryError(f"{error}: it was deleted while it was read; run it again") from error
        # A client follows a topic that was created again: its records are not of these offsets.
        if log.topic_id() != topic_id:
            name = next(iter(left)).topic
            raise QueryError(f"topic '{name}' was created again while it was read; run it again")
        for read in reads:
            end = tail.ends[read.partition]
            for records in read.batches:
                found = _below(records, end)
                if found.num_rows:
                    good, letters = columns.rows(found)
                    if letters is not None:
                        bad.add(letters)
                    if good.num_rows:
                        keep.add(good)
                    _spend(budget, max(found.nbytes, good.nbytes), read, tail)
            left[read.partition] = read.next_offset
            if read.next_offset >= end:
                del left[read.partition]
        if reads:
            moved_ms = clock_ms()
        elif clock_ms() - moved_ms > PATIENCE_MS:
            tp, at = next(iter(left.items()))
            raise QueryError(f"{tp}: no record from offset {at} on, which ends at {tail.ends[tp]}")
    found_rows = rows.table(columns.file_schema)
    if changes is not None and changes.rows:
        found_rows = changes.close(0).rows
    return TailRows(rows=found_rows, bad=bad.count, named=tuple(bad.named))


def _below(records: Any, end: int) -> Any:
    """The records below an offset; they are in the order of their offsets."""
    return records.slice(0, pc.sum(pc.less(records.column("offset"), end)).as_py() or 0)


def _spend(budget: Budget, size: int, read: Read, tail: Tail) -> None:
    budget.used += size
    if budget.used > budget.bytes_max:
        tp = read.partition
        raise QueryError(
            f"the logs have more than {_size(budget.bytes_max)} that the tables have not "
            f"(stopped in {tp} before offset {read.next_offset} of {tail.ends[tp]}): let the writer"
            f" catch up (josefine tables run), or set --max-tail-bytes; {TABLE_ALONE}"
        )


def _size(number: int) -> str:
    return f"{number:,} bytes" if number < MEGABYTE else f"{number // MEGABYTE:,} MB"
