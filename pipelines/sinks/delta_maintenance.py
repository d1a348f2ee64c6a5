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
from pipelines.model.maintenance import Chore, Upkeep
from pipelines.model.pipeline import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.05
END_S = 10.0
"""The time to wait for the end of a cancelled chore."""
HOUR_MS = 3_600_000
FILE_SIZE = tuple(f"spark.databricks.delta.optimize.{each}FileSize" for each in ("min", "max"))
"""Delta's settings: which files OPTIMIZE takes, and up to which size it joins them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A Spark job group. `begin`: put this thread's jobs into it. `end`: cancel running jobs."""

    begin: Callable[[], None]
    end: Callable[[], None]


class Keeper:
    """The chores of one table during a run. Mutable: a cancelled chore that still runs."""

    def __init__(
        self,
        upkeep: Sequence[Upkeep],
        do: Callable[[Upkeep], None],
        group: Callable[[], Group],
        stopping: Callable[[], bool],
    ) -> None:
        self._upkeep = upkeep
        self._do = do
        self._group = group
        self._stopping = stopping
        self._late: threading.Thread | None = None

    def after(self, txn_version: int) -> Iterator[str]:
        """Do the chores that are due after the commit of this number; yield a line per failure."""
        for upkeep in self._upkeep:
            if not upkeep.is_due(txn_version):
                continue
            wrong = self.keep(upkeep)
            failpoints.hit("after_upkeep")
            if wrong:
                yield wrong

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


def keeper_of(spark: SparkSession, path: str, sink: Sink, stopping: Callable[[], bool]) -> Keeper:
    """The maintenance of a sink's table at `path`."""
    do = partial(_do, spark, path)
    return Keeper(sink.upkeep, do, partial(group_of, spark), stopping)


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
        # A session of its own: the size is a setting of the session, and other sinks have theirs.
        spark = spark.newSession()
        for name in FILE_SIZE:
            spark.conf.set(name, str(upkeep.file_bytes))
    rewrite = DeltaTable.forPath(spark, path).optimize()
    if upkeep.zorder_by:
        rewrite.executeZOrderBy(*upkeep.zorder_by)
    else:
        rewrite.executeCompaction()
