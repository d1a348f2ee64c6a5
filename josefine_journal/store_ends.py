"""How far a partition is stored, as a file of the table: its name has the end, and it has no rows.

Rules: each commit of a partition replaces the file, so a table that is restored to an older
version, by whatever program, has that version's ends again; Delta's transactions, which RESTORE
leaves as they are, have the newest ones and show that it happened.
"""

import re
from dataclasses import dataclass
from uuid import uuid4

from josefine_journal.store_rows import FILE_SCHEMA

NO_ROWS = FILE_SCHEMA.empty_table()
_NAME = re.compile(r"partition=(\d+)/replicated-(\d{20})-(\d{20})-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnd:
    """Of one partition."""

    partition: int
    end: int
    """Exclusive: all before it is stored, but for what is lost."""
    lost_to: int
    """The exclusive end of the last range that was lost before it was stored; 0: none."""
    path: str = ""
    size: int = 0

    def named(self) -> str:
        """The path of a new file that says so."""
        return (
            f"partition={self.partition}/replicated-{self.end:020}-{self.lost_to:020}-"
            f"{uuid4().hex}.parquet"
        )


def stored_end(path: str, size: int) -> StoredEnd | None:
    """None: a file with rows."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    partition, end, lost_to = (int(each) for each in match.groups())
    return StoredEnd(partition=partition, end=end, lost_to=lost_to, path=path, size=size)
