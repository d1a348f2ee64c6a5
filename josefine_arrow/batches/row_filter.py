"""Which rows of its ranges a read gives: by time and by key. Pure.

Rules: a batch of records whose largest timestamp lies below is left out by its header alone; a
batch that names no timestamp is looked into. A row is decided on by itself, so reading a range
again gives the same rows.
"""

from dataclasses import dataclass
from typing import Any

NO_TIMESTAMP_MS = -1
"""Of a header: the largest timestamp is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Conditions that a row must meet, all of them; None is no condition."""

    from_ms: int | None = None
    """Rows with a timestamp before this one, in ms since 1970, are left out."""
    keys: frozenset[bytes] | None = None
    """Rows with another key, or none, are left out."""

    def may_be_in(self, largest_ms: Any) -> Any:
        """Whether a batch with this largest timestamp can have rows to give; numpy's arrays, too,
        element by element."""
        if self.from_ms is None:
            return largest_ms == largest_ms
        return (largest_ms >= self.from_ms) | (largest_ms == NO_TIMESTAMP_MS)

    def takes(self, key: bytes | None, timestamp_ms: int) -> bool:
        """The decision on one row, as the compiled loops and Arrow make it."""
        if self.from_ms is not None and timestamp_ms < self.from_ms:
            return False
        return self.keys is None or key in self.keys


ALL_ROWS = RowFilter()
