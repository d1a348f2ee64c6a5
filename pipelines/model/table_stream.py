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
    data feed. The stream starts with the whole table, or at one of: commit `version`; the first
    commit since `time_ms` or within `ago_ms`; the next commit (`latest`)."""

    schema: str
    changes: bool = False
    on_change: OnChange = OnChange.FAIL
    version: int | None = None
    latest: bool = False
    time_ms: int | None = None
    ago_ms: int | None = None

    @property
    def is_settled_once(self) -> bool:
        """Whether the start would be another one later, so that the chain has to keep it."""
        return self.latest or self.time_ms is not None or self.ago_ms is not None

    @property
    def ddl(self) -> str:
        """The columns of the stream's rows, as in SQL."""
        return f"{self.schema}, {CHANGE_COLUMNS}" if self.changes else self.schema
