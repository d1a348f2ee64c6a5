"""Table maintenance: OPTIMIZE and VACUUM of a sink's table, when each is due, and how often Delta
writes a checkpoint. Pure.

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


CHECKPOINT_INTERVAL = "delta.checkpointInterval"
"""The table property: the number of commits between two checkpoints of Delta's log."""
CHECKPOINT_COMMITS = 10
"""Delta's default of it."""
CHECKPOINT_COMMITS_MAX = 100
"""A reader lists and replays the commits since the last checkpoint."""
CHECKPOINT_MS = 100_000
"""The time between two checkpoints to aim at: one takes seconds, in which no batch commits."""


def checkpoint_settings(every_ms: int | None) -> tuple[tuple[str, str], ...]:
    """The properties of a new table that gets a commit every `every_ms`; none where Delta's default
    is rare enough, and for a run with an end (None)."""
    if every_ms is None:
        return ()
    commits = min(CHECKPOINT_COMMITS_MAX, -(-CHECKPOINT_MS // max(1, every_ms)))
    return ((CHECKPOINT_INTERVAL, str(commits)),) if commits > CHECKPOINT_COMMITS else ()


class Chore(Enum):
    """The kind of a task."""

    OPTIMIZE = "optimize"  # small files become large ones
    VACUUM = "vacuum"  # files that no version within `keep` needs are deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """One task, due after a number of committed batches. `keep_ms`: the retention of a VACUUM;
    None: that of the table's settings. `file_bytes`: the size of the files that an OPTIMIZE makes;
    None: Delta's default."""

    chore: Chore
    every: int
    within_ms: int = BUDGET_MS
    keep_ms: int | None = None
    file_bytes: int | None = None

    def is_due(self, txn_version: int) -> bool:
        """Whether the task is due after this commit."""
        return txn_version % self.every == 0
