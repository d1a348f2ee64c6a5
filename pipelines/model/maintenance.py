"""What a sink's table needs beside its rows: OPTIMIZE and VACUUM, and when each is due. Pure.

Due by the number of the sink's own commits, which the table itself remembers: a lost checkpoint or
a new run changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

BUDGET_MS = 60_000
"""How long one of them may hold up the next batch, where the file says nothing."""
KEEP_MS_MIN = 7 * 24 * 3_600_000
"""What Delta keeps at least of files that the table has no more: a reader may be at them yet."""


class Chore(Enum):
    """What is done to a table."""

    OPTIMIZE = "optimize"  # small files become large ones
    VACUUM = "vacuum"  # files that no version of `keep` needs are deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """One chore, after every so many batches that were committed. `keep_ms`: of a VACUUM, None:
    as long as the table says."""

    chore: Chore
    every: int
    within_ms: int = BUDGET_MS
    keep_ms: int | None = None

    def is_due(self, txn_version: int) -> bool:
        """After the commit of this number."""
        return txn_version % self.every == 0
