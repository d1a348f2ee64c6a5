"""Table maintenance: OPTIMIZE and VACUUM of a sink's table, and when each is due. Pure.

A task is due by the number of the sink's own commits, which the table itself records: a lost
checkpoint or a new run changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

BUDGET_MS = 60_000
"""The default time for which a task may delay the next batch."""
KEEP_MS_MIN = 7 * 24 * 3_600_000
"""Delta's minimum retention of removed files: a reader may still use them."""


class Chore(Enum):
    """The kind of a task."""

    OPTIMIZE = "optimize"  # small files become large ones
    VACUUM = "vacuum"  # files that no version within `keep` needs are deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """One task, due after a number of committed batches. `keep_ms`: the retention of a VACUUM;
    None: that of the table's settings."""

    chore: Chore
    every: int
    within_ms: int = BUDGET_MS
    keep_ms: int | None = None

    def is_due(self, txn_version: int) -> bool:
        """Whether the task is due after this commit."""
        return txn_version % self.every == 0
