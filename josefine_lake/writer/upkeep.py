"""When a table's small files are rewritten, and when files that no reader needs are deleted.

Rules: the rewrite is due by the number of files, the deletion by the number of the chain's commits,
which the table itself records, so neither a restart nor a lease that moves delays it for ever; a
failure delays the next attempt and never the rows. Pure: time is an argument.
"""

from __future__ import annotations

from josefine_lake.writer import compaction

VACUUM_COMMITS = 50
"""The table's folder is listed once in so many commits, at most."""
VACUUM_MS_MIN = 3_600_000
"""And once in this time, if the last time left nothing to delete."""
WITHIN_MS = 5_000
"""The time for which a deletion may delay the next commit; the rest is deleted later."""
PAUSE_MS = 60_000
"""After a failure."""


class Upkeep:
    """Mutable: when a task was last done, or failed."""

    def __init__(self) -> None:
        self._compact_from_ms = self._vacuum_from_ms = 0

    def compacts(self, files: int, bytes_: int, now_ms: int) -> bool:
        """Whether to rewrite small files after a commit."""
        return now_ms >= self._compact_from_ms and compaction.is_due(files, bytes_)

    def vacuums(self, txn_version: int, now_ms: int) -> bool:
        """Whether to delete files after the commit of this number."""
        return txn_version % VACUUM_COMMITS == 0 and now_ms >= self._vacuum_from_ms

    def vacuumed(self, now_ms: int, *, is_finished: bool) -> None:
        """Files were deleted; not `is_finished`: there are more."""
        self._vacuum_from_ms = now_ms + (VACUUM_MS_MIN if is_finished else 0)

    def compact_failed(self, now_ms: int) -> None:
        """Try again later: the table is written meanwhile."""
        self._compact_from_ms = now_ms + PAUSE_MS

    def compacted(self) -> None:
        """Small files were rewritten."""
        self._compact_from_ms = 0
