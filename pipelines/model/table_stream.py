"""A Delta table that is read as a stream: its columns, its changes, its start."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

CHANGE_COLUMNS = "_change_type STRING, _commit_version BIGINT, _commit_timestamp TIMESTAMP"
"""The columns that Delta's change data feed adds to each row."""


class OnChange(Enum):
    """The handling of a commit that deletes or updates rows of a table read without its changes."""

    FAIL = "fail"  # the sink stops with a verdict
    IGNORE_DELETES = "ignore_deletes"  # deletes along the table's partitions are passed over
    SKIP_CHANGES = "skip_changes"  # the whole commit is passed over


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStream:
    """`schema`: the table's columns that are used, as in SQL. `changes`: rows come from the change
    data feed. `version`: the first commit that is read; None: the whole table first."""

    schema: str
    changes: bool = False
    on_change: OnChange = OnChange.FAIL
    version: int | None = None

    @property
    def ddl(self) -> str:
        """The columns of the stream's rows, as in SQL."""
        return f"{self.schema}, {CHANGE_COLUMNS}" if self.changes else self.schema
