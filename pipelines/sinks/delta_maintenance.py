"""Maintenance of a Delta table between two batches, with a time limit; no failure stops the rows.

Each chore has its own thread and Spark job group, so only its jobs are cancelled when its time is
up or the run stops. OPTIMIZE and VACUUM change no row and have no transaction of a sink: chains
walk past them. A chore that does not stop can only conflict with a batch, whose commit is then
repeated. No other chore starts as long as it runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from pipelines.base import failpoints
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.freshness import FILE_BYTES, FileCare, Files
from pipelines.model.maintenance import Chore, Upkeep
from pipelines.model.pipeline import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.05
END_S = 10.0
"""The time to wait for the end of a cancelled chore."""
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A Spark job group. `begin`: put this thread's jobs into it. `end`: cancel running jobs."""

    begin: Callable[[], None]
    end: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The files of a table whose sink has `fresh` or `file`. `count` reads the table."""

    care: FileCare
    file_bytes: int
    count: Callable[[], Files]


class Keeper:
    """The chores of one table during a run. Mutable: a cancelled chore that still runs."""

    def __init__(
        self,
        upkeep: Sequence[Upkeep],
        do: Callable[[Upkeep], None],
        group: Callable[[], Group],
        stopping: Callable[[], bool],
        files: TableFiles | None = None,
    ) -> None:
        self._files = files
        self._upkeep = upkeep
        self._do = do
        self._group = group
        self._stopping = stopping
        self._late: threading.Thread | None = None

    def after(self, txn_version: int, spent_ms: int = 0) -> Iterator[str]:
        """Do the chores that are due after the commit of this number, whose batch took `spent_ms`;
        yield a line per failure."""
        for upkeep in self._upkeep:
            if not upkeep.is_due(txn_version):
                continue
            wrong = self.keep(upkeep)
            failpoints.hit("after_upkeep")
            if wrong:
                yield wrong
        if self._files is not None and (wrong := self._compact(self._files, spent_ms)):
            yield wrong

    def _compact(self, files: TableFiles, spent_ms: int) -> str:
        """Compact if the targets of the sink ask for it now."""
        care = files.care
        try:
            if not care.is_counted:
                care.counted(files.count())
            within_ms = care.due(spent_ms)
            if within_ms is None:
                return ""
            begun_s = time.monotonic()
            task = Upkeep(
                chore=Chore.OPTIMIZE, every=1, within_ms=within_ms, file_bytes=files.file_bytes
            )
            wrong = self.keep(task)
            failpoints.hit("after_upkeep")
            if wrong:
                care.failed(within_ms)
                return wrong
            care.compacted(round((time.monotonic() - begun_s) * 1000))
            care.counted(files.count())
        except Exception as error:
            # A table that cannot be counted must not fail the batch.
            return f"optimize is put off: {clear_reason(error)}"
        return ""

    def keep(self, upkeep: Upkeep) -> str:
        """Do one chore. Returns its failure in one line, or ""; raises nothing."""
        what = upkeep.chore.value
        if self._late is not None and self._late.is_alive():
            return f"{what} is put off: {self._late.name} was cancelled and has not ended yet"
        try:
            return self._within(upkeep, what)
        except Exception as error:
            # A chore's failure must not fail its batch.
            return f"{what} failed: {clear_reason(error)}"

    def _within(self, upkeep: Upkeep, what: str) -> str:
        group = self._group()
        wrong: list[Exception] = []

        def run() -> None:
            try:
                group.begin()
                self._do(upkeep)
            except Exception as error:
                wrong.append(error)

        thread = self._late = threading.Thread(target=run, name=what, daemon=True)
        thread.start()
        until_s = time.monotonic() + upkeep.within_ms / 1000
        while thread.is_alive() and not self._stopping() and time.monotonic() < until_s:
            thread.join(min(POLL_S, upkeep.within_ms / 1000))
        if not thread.is_alive():
            return f"{what} failed: {clear_reason(wrong[0])}" if wrong else ""
        why = "the run ends"
        if not self._stopping():
            why = f"it took longer than {upkeep.within_ms / 1000:g} s (`within`)"
        until_s = time.monotonic() + END_S
        while thread.is_alive() and time.monotonic() < until_s:
            # Repeatedly: a chore without a job at this moment may start one at the next.
            group.end()
            thread.join(POLL_S)
        return f"{what} was ended: {why}"


def files_of(spark: SparkSession, path: str, sink: Sink) -> TableFiles | None:
    """The files of a sink's table at `path`; None if the sink has no target for them."""
    if sink.fresh_ms is None and sink.file_bytes is None:
        return None
    size = sink.file_bytes or FILE_BYTES
    care = FileCare(fresh_ms=sink.fresh_ms, file_bytes=size)
    return TableFiles(care=care, file_bytes=size, count=partial(_count, spark, path))


def keeper_of(
    spark: SparkSession,
    path: str,
    sink: Sink,
    stopping: Callable[[], bool],
    files: TableFiles | None,
) -> Keeper:
    """The maintenance of a sink's table at `path`."""
    do = partial(_do, spark, path)
    return Keeper(sink.upkeep, do, partial(group_of, spark), stopping, files)


def group_of(spark: SparkSession) -> Group:
    """A new job group."""
    name = f"josefine upkeep {uuid4().hex}"
    context = spark.sparkContext

    return Group(
        begin=lambda: context.setJobGroup(name, name, interruptOnCancel=True),
        end=lambda: context.cancelJobGroup(name),
    )


def _do(spark: SparkSession, path: str, upkeep: Upkeep) -> None:
    from delta.tables import DeltaTable

    if upkeep.chore is Chore.OPTIMIZE:
        _optimize(spark, path, upkeep)
        return
    table = DeltaTable.forPath(spark, path)
    if upkeep.keep_ms is None:
        table.vacuum()
    else:
        table.vacuum(upkeep.keep_ms / HOUR_MS)


def _optimize(spark: SparkSession, path: str, upkeep: Upkeep) -> None:
    from delta.tables import DeltaTable

    if upkeep.file_bytes is not None:
        spark = _with_size(spark, upkeep.file_bytes)
    rewrite = DeltaTable.forPath(spark, path).optimize()
    if upkeep.zorder_by:
        rewrite.executeZOrderBy(*upkeep.zorder_by)
    else:
        rewrite.executeCompaction()


def _with_size(spark: SparkSession, file_bytes: int) -> SparkSession:
    """A session of its own: the size is a setting of the session, which all sinks share. Files of
    half the size stay as they are."""
    sized = spark.newSession()
    sized.conf.set("spark.databricks.delta.optimize.maxFileSize", str(file_bytes))
    sized.conf.set("spark.databricks.delta.optimize.minFileSize", str(max(1, file_bytes // 2)))
    return sized


def _count(spark: SparkSession, path: str) -> Files:
    from delta.tables import DeltaTable

    row = DeltaTable.forPath(spark, path).detail().select("numFiles", "sizeInBytes").head()
    assert row is not None
    return Files(count=row["numFiles"], bytes=row["sizeInBytes"])
