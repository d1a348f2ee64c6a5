"""Rows of one sink that are committed to its table without Delta's writer in Spark.

Spark writes plain Parquet files. Those of an append are the table's: delta-rs commits them with the
statistics of their footers. Those of an aggregate are few rows, which Arrow merges. Delta in
Spark computes the whole state of a table for each commit, and the statistics row by row, and keeps
what it knows of each table in the JVM. A table that asks for more (`model/direct_append`,
`model/direct_merge`) is written by Spark.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.base import failpoints
from pipelines.exactly_once.offset_chain import Commit
from pipelines.model.direct_append import why_not_here
from pipelines.model.direct_merge import Fold, why_not_folded
from pipelines.model.pipeline import Mode, Sink
from pipelines.model.table_columns import Fields
from pipelines.sinks.delta_log import LogEntry
from pipelines.sinks.direct_merge import merge, rows_of
from pipelines.sinks.direct_table import (
    OWN_FOLDER,
    CameBetweenError,
    DirectTable,
    FailedError,
    NotDirectError,
    arrow_reads,
)
from pipelines.sinks.staging import Staging, files_in, write_files
from pipelines.spark.settings import IS_DIRECT
from pipelines.transforms.cached_rows import is_one_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.sinks.delta_commits import DeltaChain


class DirectRows:
    """One table. Mutable: the open table, once the columns of the rows are known, and these."""

    def __init__(self, path: str, fold: Fold | None = None) -> None:
        """`fold`: how rows are merged; None: they are appended."""
        self._path, self._fold = path, fold
        self._open: tuple[Fields, DirectTable] | None = None
        self._staging = Staging(Path(path, OWN_FOLDER, "staging"))

    def create(self, rows: Fields, settings: Mapping[str, str]) -> bool:
        """Create the table; False: Spark has to, or to say why it cannot be created."""
        from deltalake.exceptions import DeltaError

        table = self._opened(rows, settings)
        with suppress(NotDirectError, DeltaError, OSError):
            table.check(-1)
            table.create()
            return True
        return False

    def fields(self) -> Fields | None:
        """The columns of the table at its newest version; None: Spark has to be asked."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with suppress(DeltaError):
            table = DeltaTable(self._path)
            fields: Fields = json.loads(table.schema().to_json())["fields"]
            return None if table.metadata().partition_columns else fields
        return None

    def write(
        self,
        chain: DeltaChain,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
    ) -> LogEntry:
        """Commit a batch. Raises NotDirectError if Spark has to; CameBetweenError and FailedError
        if no commit was made; StoppedError, Spark's errors; OSError if nobody knows, because the
        log cannot be read."""
        try:
            add = self._staged(chain, rows, commit, batch_id)
        except OSError as error:
            raise NotDirectError(str(error)) from error
        return chain.add(add, commit, batch_id, more)

    def _staged(
        self, chain: DeltaChain, rows: DataFrame, commit: Commit, batch_id: int
    ) -> Callable[[int, str], None]:
        """Write the files of a batch; what commits them."""
        fields: Fields = rows.schema.jsonValue()["fields"]
        # A column of a lookup that takes nulls from now on is another one.
        if self._open is None or self._open[0] != fields:
            self._staging.clean(time.time())
            self._open = fields, self._opened(fields, {})
        table, number = self._open[1], commit.txn_version
        # Before the files are written; of a version of others the commit has to ask again.
        with suppress(CameBetweenError):
            table.check(chain.version)
        with self._staging.batch() as folder:
            chain.repeat(batch_id, lambda: write_files(rows, folder))
            failpoints.hit("mid_direct", 1)
            files, partials, actions = files_in(folder), None, list[Any]()
            if self._fold is None:
                actions = table.take(files)
            else:
                with arrow_reads():
                    partials = rows_of(files)
        failpoints.hit("mid_direct", 2)

        def add(version: int, said: str) -> None:
            try:
                if partials is None or self._fold is None:
                    table.add(actions, version, chain.link, number, said)
                else:
                    how = partial(merge, partials, self._fold, fields, self._path)
                    table.merge(how, version, chain.link, number, said)
            except OSError as error:
                raise FailedError(str(error)) from error

        return add

    def _opened(self, rows: Fields, settings: Mapping[str, str]) -> DirectTable:
        if self._fold is None:
            return DirectTable(self._path, rows, settings)
        return DirectTable(self._path, rows, settings, partial(why_not_folded, self._fold))


def direct_rows_of(sink: Sink, spark: SparkSession) -> DirectRows | None:
    """None: Spark writes the sink's table."""
    functions = {each.column: each.function for each in sink.aggregates}
    fold = Fold(keys=sink.keys, functions=functions) if sink.merges else None
    is_append = sink.mode is Mode.APPEND and sink.deduplicate is None
    if not (is_append or fold) or sink.path is None:
        return None
    return None if why_not_direct(sink, sink.path, spark) else DirectRows(sink.path, fold)


def why_not_direct(sink: Sink, path: str, spark: SparkSession) -> str:
    """Why Spark writes all tables of the sink, such as that at `path`; "" if those of plain rules
    get direct appends."""
    if any(importlib.util.find_spec(each) is None for each in ("deltalake", "pyarrow")):
        return "deltalake is not installed"
    if spark.conf.get(IS_DIRECT, "true") == "false":
        return f"{IS_DIRECT} is false"
    system = spark._jsc.hadoopConfiguration().get("fs.defaultFS")
    if not is_one_process(spark) or not str(system).startswith("file:"):
        return "files of Spark's tasks may be on other machines"
    settings: Mapping[str, str] = spark.conf.getAll
    return why_not_here(sink, path, settings)
