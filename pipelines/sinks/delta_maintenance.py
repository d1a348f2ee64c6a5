"""Does a table's chores between two batches, within their time; whatever comes of it, rows go on.

Each in a thread with a job group of its own, so that only its jobs are ended when its time is up or
the run is to end. OPTIMIZE and VACUUM change no row and carry no transaction of a sink: chains walk
past them. What has not ended for all that can only lose against a batch, whose commit is made
again; no other chore begins beside it.
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
"""How long the end of a chore is waited for that was told to end."""
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """`begin`: make the jobs of this thread one group. `end`: end those that run."""

    begin: Callable[[], None]
    end: Callable[[], None]


class Keeper:
    """The chores of one table during a run. Mutable: the one that was told to end and has not."""

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
        """Do what is due after the commit of this number; what went wrong, a line for each."""
        for upkeep in self._upkeep:
            if not upkeep.is_due(txn_version):
                continue
            wrong = self.keep(upkeep)
            failpoints.hit("after_upkeep")
            if wrong:
                yield wrong

    def keep(self, upkeep: Upkeep) -> str:
        """Do one chore. What went wrong, in one line; "" when it is done. Raises nothing."""
        what = upkeep.chore.value
        if self._late is not None and self._late.is_alive():
            return f"{what} is put off: {self._late.name} was told to end and has not yet"
        try:
            return self._within(upkeep, what)
        except Exception as error:
            # No failure of a chore is one of its batch.
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
            # Again and again: what has no job at this moment may begin one at the next.
            group.end()
            thread.join(POLL_S)
        return f"{what} was ended: {why}"


def keeper_of(spark: SparkSession, path: str, sink: Sink, stopping: Callable[[], bool]) -> Keeper:
    """What a sink's table at `path` needs."""
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

    table = DeltaTable.forPath(spark, path)
    if upkeep.chore is Chore.OPTIMIZE:
        table.optimize().executeCompaction()
    elif upkeep.keep_ms is None:
        table.vacuum()
    else:
        table.vacuum(upkeep.keep_ms / HOUR_MS)
