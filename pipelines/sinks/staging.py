"""Files of a batch that no table has yet: one Spark job writes them into a staging folder.

The folder is on the tables' file system, and below a name that starts with `_`, so Delta's readers
and VACUUM ignore it. The files move into their tables' folders before the commits that name them. A
killed run leaves its files there, which a later run removes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pipelines.base import failpoints
from pipelines.sinks.direct_table import NewFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEEP_S = 24 * 3600
"""Another run of the same sink may still be at work on newer files: it stops at its commit."""
_OPTIONS = {
    # Nobody reads the folder before the job is done.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_TIMES = "spark.sql.parquet.outputTimestampType"
"""Delta's own writer leaves INT96, of which Parquet has no bounds."""


class Staging:
    """The staging folder of one sink."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clean(self, now_s: float) -> None:
        """Remove what runs have left that were killed."""
        if self._folder.is_dir():
            for each in self._folder.iterdir():
                if each.stat().st_mtime < now_s - KEEP_S:
                    shutil.rmtree(each, ignore_errors=True)

    @contextmanager
    def batch(self) -> Iterator[Path]:
        """A folder of one batch; removed afterwards."""
        folder = self._folder / uuid4().hex
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def write_files(rows: DataFrame, folder: Path, *by: str) -> None:
    """Write the rows as files, in a folder for each value of the columns `by`; replaces what a
    failed attempt has left."""
    shutil.rmtree(folder, ignore_errors=True)
    rows.sparkSession.conf.set(_TIMES, "TIMESTAMP_MICROS")
    out = failpoints.disturbed(rows)
    out.write.partitionBy(*by).options(**_OPTIONS).parquet(str(folder))


def files_in(folder: Path) -> list[NewFile]:
    """The files of one folder."""
    found = sorted(folder.glob("*.parquet"))
    return [NewFile(path=each, at_ms=each.stat().st_mtime_ns // 1_000_000) for each in found]
