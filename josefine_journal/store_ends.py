"""The stored end of a partition, as a file of the table without rows: its name has the end.

Rules: each commit of a partition replaces the file, so a table that any program restores to an
older version has that version's ends again. RESTORE does not change Delta's transactions: they have
the newest ends, and the difference shows that the table was restored.
"""

import re
from dataclasses import dataclass
from uuid import uuid4

from josefine_journal.store_rows import FILE_SCHEMA

NO_ROWS = FILE_SCHEMA.empty_table()
_NAME = re.compile(r"partition=(\d+)/replicated-(\d{20})-(\d{20})-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnd:
    """The stored end of one partition."""

    partition: int
    end: int
    """End offset (exclusive): all records before it are stored, except for lost ones."""
    lost_to: int
    """End (exclusive) of the last lost range; 0: none."""
    path: str = ""
    size: int = 0

    def named(self) -> str:
        """The path of a new file with this end."""
        return (
            f"partition={self.partition}/replicated-{self.end:020}-{self.lost_to:020}-"
            f"{uuid4().hex}.parquet"
        )


def stored_end(path: str, size: int) -> StoredEnd | None:
    """The end in a file's name; None: a file with rows."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    partition, end, lost_to = (int(each) for each in match.groups())
    return StoredEnd(partition=partition, end=end, lost_to=lost_to, path=path, size=size)
