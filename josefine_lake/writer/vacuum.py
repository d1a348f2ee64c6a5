"""VACUUM of a table topic's table: delete data files that are no longer in it.

delta-rs finds them by Delta's rules: removed from the table before the retention, or named by no
commit and not written since. The table's own retention (`delta.deletedFileRetentionDuration`)
counts if it is longer. Of these only Parquet files that lie in the table's folder itself are
deleted: the table has no partitions, so all of its files do, and another table, or a person's file,
within the folder is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

HOUR_MS = 3_600_000
SUFFIX = ".parquet"
TOGETHER = 8
"""Deletions at the same time: a store on a network takes some milliseconds for each."""


def expired(table: DeltaTable, retention_ms: int) -> list[str]:
    """The names of the files to delete. Raises DeltaError, OSError."""
    hours = -(-retention_ms // HOUR_MS)
    try:
        # Refused if the table's own retention is longer.
        found = table.vacuum(hours, dry_run=True, full=True)
    except DeltaError:
        found = table.vacuum(None, dry_run=True, full=True)
    return [name for name in found if "/" not in name and name.endswith(SUFFIX)]


def delete(files: Any, names: Sequence[str], within_ms: int) -> int:
    """Delete files of a pyarrow file system until the time is up; the number of deleted ones.
    Raises OSError."""
    until_s = time.monotonic() + within_ms / 1_000

    def one(name: str) -> bool:
        if time.monotonic() >= until_s:
            return False
        with suppress(FileNotFoundError):  # another program deleted it
            files.delete_file(name)
        return True

    with ThreadPoolExecutor(TOGETHER, thread_name_prefix="vacuum") as pool:
        return sum(pool.map(one, names))
