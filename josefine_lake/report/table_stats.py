"""Counters and gauges of the tables of one process: the writers' threads count, a scrape reads.

Rules: the values of a table have one writer, its thread, and a scrape reads single numbers, so no
lock is needed; a table whose lease went to another process has no values here any more. Time is an
argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition

US_PER_MS = 1_000
UNKNOWN = -1
"""A timestamp that no record has."""


@dataclass(slots=True)
class Counts:
    """What a process has done for a table. Mutable; numbers only grow."""

    rows: int = 0
    bytes: int = 0
    commits: int = 0
    dead_letters: int = 0
    compactions: int = 0
    files_deleted: int = 0
    upkeep_failures: int = 0
    errors: int = 0


@dataclass(slots=True)
class Lag:
    """What a table lacks of its topic. Mutable."""

    records: int | None = None
    """Offsets; None until table and topic were compared."""
    _oldest_ms: int | None = None
    """The timestamp of the oldest record that the table is known to lack."""
    _newest_ms: int = UNKNOWN
    _has_read: bool = False
    """Since the start; before, nobody knows the age of what the table lacks."""
    _ends: dict[Any, int] = field(default_factory=dict)
    _reached: dict[Any, int] = field(default_factory=dict)

    def started(self, positions: ByPartition, ends: ByPartition) -> None:
        """The table has everything below `positions`; the topic ends at `ends`."""
        self._ends, self._reached, self._has_read = dict(ends), dict(positions), False
        self._count()

    def read(self, partition: Any, oldest_ms: int, newest_ms: int, end: int) -> None:
        """Records were read that the table lacks; the partition ends at `end`. A record without a
        timestamp has no age."""
        self._ends[partition], self._has_read = end, True
        if oldest_ms > UNKNOWN:
            known = oldest_ms if self._oldest_ms is None else self._oldest_ms
            self._oldest_ms = min(known, oldest_ms)
            self._newest_ms = max(self._newest_ms, newest_ms)
        self._count()

    def committed(self, positions: ByPartition) -> None:
        """A commit has everything below `positions`."""
        self._reached = dict(positions)
        # What is still to be read is, as far as anybody knows, as old as the newest one read.
        self._oldest_ms = None if self._newest_ms == UNKNOWN else self._newest_ms
        self._count()

    def age_ms(self, wall_ms: int) -> int | None:
        """The age of the oldest record that the table lacks; None: unknown."""
        if self.records is None:
            return None
        if self.records == 0:
            return 0
        if self._oldest_ms is not None:
            return max(0, wall_ms - self._oldest_ms)
        # What was read has no row: aborted records, whose offsets the next commit passes.
        return 0 if self._has_read else None

    @property
    def reached(self) -> Mapping[Any, int]:
        """Partition → the end of what the table has of it."""
        return self._reached

    def _count(self) -> None:
        ends = self._ends.items()
        self.records = sum(max(0, end - self._reached.get(p, 0)) for p, end in ends)
        if not self.records:
            self._oldest_ms, self._newest_ms = None, UNKNOWN


@dataclass(slots=True)
class TableStats:
    """The values of one table since its lease came to this process. Mutable."""

    counts: Counts = field(default_factory=Counts)
    lag: Lag = field(default_factory=Lag)
    target_lag_ms: int = 0
    files: int | None = None
    size_bytes: int | None = None
    committed_ms: int | None = None
    """By the calendar."""
    looked_ms: int | None = None
    """When an archive was last found whole, by the calendar."""
    problem: str = ""
    """Why the table is not written now; empty if it is."""
    is_stopped: bool = False
    """The problem waits for a person."""
    upkeep_problem: str = ""
    """Why the last compaction or VACUUM failed; empty if it did not."""

    def started(self, positions: ByPartition, ends: ByPartition) -> None:
        """The table is written from `positions` on; the topic ends at `ends`."""
        self.problem, self.is_stopped = "", False
        self.lag.started(positions, ends)

    def committed(self, rows: int, bytes_: int, positions: ByPartition, wall_ms: int) -> None:
        """A commit has everything below `positions`."""
        self.counts.rows += rows
        self.counts.bytes += bytes_
        self.counts.commits += 1
        self.committed_ms = wall_ms
        self.lag.committed(positions)

    def has(self, files: int, bytes_: int) -> None:
        """The table's newest version has these files."""
        self.files, self.size_bytes = files, bytes_

    def failed(self, problem: str, *, is_stopped: bool) -> None:
        """The table is not written until it is tried again, or a person has decided."""
        self.counts.errors += 1
        self.problem, self.is_stopped = problem, is_stopped

    def upkeep_failed(self, problem: str) -> None:
        """The table is written all the same."""
        self.counts.upkeep_failures += 1
        self.upkeep_problem = problem


class ProcessStats:
    """The tables of this process, by topic. Mutable."""

    def __init__(self) -> None:
        self._tables: dict[str, TableStats] = {}
        self.refused: Mapping[str, str] = {}
        """Topic → what is wrong with its configs."""
        self.connected_ms: int | None = None
        """When brokers last answered, by the clock of due times."""

    def table(self, topic: str, target_lag_ms: int) -> TableStats:
        """The values of a table that this process starts to write: counters continue."""
        found = self._tables.get(topic) or TableStats()
        found.target_lag_ms = target_lag_ms
        # Replaced and not changed: a scrape may go through the former one.
        self._tables = {**self._tables, topic: found}
        return found

    def remove(self, topic: str) -> None:
        """Another process writes it now: its lag here would only grow."""
        self._tables = {t: each for t, each in self._tables.items() if t != topic}

    @property
    def tables(self) -> Mapping[str, TableStats]:
        """A snapshot of which tables there are."""
        return self._tables
