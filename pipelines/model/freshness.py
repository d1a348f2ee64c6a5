"""A sink's targets `fresh` and `file`: how often a batch begins, and when small files are made into
large ones. Pure.

Half of `fresh` is for waiting: a record that arrives just after a batch has begun waits one
interval for the next. The other half is for that batch, and what is left of it for compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipelines.model.maintenance import BUDGET_MS

FRESH_MIN_MS = 2_000
"""A batch with its commit takes about a second, and half of the target is for waiting."""
FILE_BYTES = 128 << 20
"""The size of a table's files if the sink has `fresh` alone."""
FILE_MIN_BYTES = 1 << 20
"""Smaller files cost a reader more for their names than for their rows."""
SMALL_MAX = 16
"""Small files in a table before they are compacted. A commit adds a few more."""
LATE_MAX = 64
"""Small files with which a compaction may no longer wait for a batch that leaves time for it."""
WITHIN_MIN_MS = 1_000
"""A shorter compaction would be ended before its first file is written."""


def interval_ms(targets_ms: Iterable[int | None]) -> int | None:
    """The time from the begin of a batch to the next, for the strictest target; None: there is
    none."""
    known = [each for each in targets_ms if each is not None]
    return max(1, min(known) // 2) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files of a table, or those that a commit added."""

    count: int
    bytes: int


def files_added(metrics: Mapping[str, int]) -> Files:
    """From the metrics of Delta's commit, of an append or a MERGE."""
    if "numTargetFilesAdded" in metrics:
        added = metrics["numTargetFilesAdded"]
        return Files(count=added, bytes=metrics.get("numTargetBytesAdded", 0))
    return Files(count=metrics.get("numFiles", 0), bytes=metrics.get("numOutputBytes", 0))


class FileCare:
    """Decides after each commit whether to compact now. Mutable: the number of small files, and
    how long a compaction takes."""

    def __init__(self, *, fresh_ms: int | None, file_bytes: int) -> None:
        self._fresh_ms = fresh_ms
        self._half = max(1, file_bytes // 2)
        self._small: int | None = None
        self._cost_ms = 0
        self._late_max = LATE_MAX

    @property
    def is_counted(self) -> bool:
        """Whether the table's files were counted; a run's first commit asks for it."""
        return self._small is not None

    def counted(self, table: Files) -> None:
        """The whole table: what it has more than files of half the size."""
        self._small = max(0, table.count - -(-table.bytes // self._half))

    def committed(self, added: Files) -> None:
        """A commit: its files are small unless they have half the size on average."""
        if self._small is not None and added.bytes < added.count * self._half:
            self._small += added.count

    def due(self, spent_ms: int) -> int | None:
        """How long a compaction may take now, after a batch of `spent_ms`; None: not now."""
        small = self._small
        if small is None or small < SMALL_MAX:
            return None
        if self._fresh_ms is None:
            return BUDGET_MS
        if small >= self._late_max:
            return min(BUDGET_MS, max(WITHIN_MIN_MS, self._fresh_ms))
        rest_ms = min(BUDGET_MS, self._fresh_ms // 2 - spent_ms)
        return rest_ms if rest_ms >= max(WITHIN_MIN_MS, self._cost_ms) else None

    def compacted(self, took_ms: int) -> None:
        """One has ended by itself; `counted` gets what it left."""
        self._cost_ms = took_ms
        self._late_max = LATE_MAX

    def failed(self, within_ms: int) -> None:
        """One was ended early or failed: the next waits for more time, at last for more files."""
        assert self._small is not None
        self._cost_ms = 2 * within_ms
        if self._small >= self._late_max:
            self._late_max = 2 * self._small
