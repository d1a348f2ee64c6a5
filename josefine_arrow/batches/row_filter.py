"""The row filter of a read, by time and by key. Pure.

Rules: a record batch whose largest timestamp is too old is skipped by its header alone; a batch
without a largest timestamp is decoded. Each row is decided on its own, so that a second read of a
range returns the same rows.
"""

from dataclasses import dataclass
from typing import Any

NO_TIMESTAMP_MS = -1
"""In a batch header: the largest timestamp is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Conditions that a row must all meet; None: no condition."""

    from_ms: int | None = None
    """Rows with an older timestamp are left out; in ms since 1970."""
    keys: frozenset[bytes] | None = None
    """Rows with another key, or without a key, are left out."""

    def may_be_in(self, largest_ms: Any) -> Any:
        """Whether a batch with this largest timestamp can have matching rows. Also works element by
        element on numpy arrays."""
        if self.from_ms is None:
            return largest_ms == largest_ms
        return (largest_ms >= self.from_ms) | (largest_ms == NO_TIMESTAMP_MS)

    def takes(self, key: bytes | None, timestamp_ms: int) -> bool:
        """Whether one row matches, as the compiled kernels and Arrow decide it."""
        if self.from_ms is not None and timestamp_ms < self.from_ms:
            return False
        return self.keys is None or key in self.keys


ALL_ROWS = RowFilter()
