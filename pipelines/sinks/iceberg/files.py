"""Parquet files of an Iceberg sink: a folder for each commit, named after it.

`<table>/data/josefine/<uuid>/<pipeline>.<sink>/<number>-<run>`, with the table's uuid. A batch that
the same run writes again replaces its folder, so no file is in it twice. Another run's folder has
another name, so no run deletes files that another one may be committing. A folder whose number
another run has committed can never be committed: it is an orphan, and is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.base import failpoints
from pipelines.exactly_once.other_chains import ChainName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FOLDER = re.compile(r"(\d+)-(\w+)")
_PARQUET: Mapping[str, str] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "false",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
"""Spark's settings for files by Iceberg's spec: Spark's default for times is INT96. No field ids:
the table's name mapping finds the columns."""


class RowFiles(Protocol):
    """Writes rows to files and removes them (`SparkFiles`, or a model in a unit test)."""

    def write(self, rows: Any, folder: str) -> Sequence[str]:
        """Replace a folder by these rows' Parquet files; return their paths."""

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder; empty if it does not exist."""

    def remove(self, folder: str) -> None:
        """Remove a folder and everything in it."""


def folder_of(location: str, uuid: str, name: ChainName) -> str:
    """The parent of a chain's folders. `location`, `uuid`: the table's. A table that is created
    again at the same location has another uuid, so it removes no file of the earlier one."""
    return f"{location.rstrip('/')}/data/josefine/{uuid}/{name.pipeline}.{name.sink}"


def folder_name(number: int, run: str) -> str:
    """The name of the folder of one commit."""
    return f"{number:010d}-{run}"


def orphans(names: Sequence[str], runs: Mapping[int, set[str]]) -> list[str]:
    """The folders that no commit can name any more. `runs`: number → the runs that committed it,
    as far as snapshots remain."""
    found = []
    for name in names:
        match = _FOLDER.fullmatch(name)
        committed = runs.get(int(match[1])) if match else None
        if match and committed and match[2] not in committed:
            found.append(name)
    return found


class SparkFiles:
    """Files that Spark's executors write."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._hadoop: Any = spark._jsc.hadoopConfiguration()

    def write(self, rows: DataFrame, folder: str) -> list[str]:
        """Raises Spark's errors."""
        with _settings(rows.sparkSession, _PARQUET):
            failpoints.disturbed(rows).write.format("parquet").mode("overwrite").save(folder)
        return [f"{folder}/{name}" for name in self.names(folder) if name.endswith(".parquet")]

    def names(self, folder: str) -> list[str]:
        where, system = self._at(folder)
        if not system.exists(where):
            return []
        return [status.getPath().getName() for status in system.listStatus(where)]

    def remove(self, folder: str) -> None:
        where, system = self._at(folder)
        system.delete(where, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        where = self._jvm.org.apache.hadoop.fs.Path(path)
        return where, where.getFileSystem(self._hadoop)


@contextmanager
def _settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set settings of the session, and restore the old values at the end."""
    before = {name: session.conf.get(name, None) for name in values}
    for name, value in values.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)
