"""`metrics.table`: a row for each finished batch, in a Delta table on the driver's machine.

Rules: nothing of it may hold up a batch or end a run. Rows are written by delta-rs, so without a
job of Spark, by a thread of their own, some at once; what it cannot write is left out, and that is
told once. A row is written at most once: whoever wants the truth about a batch reads its commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base.errors import SetupError
from pipelines.base.plurals import counted
from pipelines.base.variables import hidden
from pipelines.model.retry_policy import Retry
from pipelines.report.events import BatchDone, Reporter
from pipelines.report.progress_rows import first_day_kept, row_of

GATHER_S = 5.0
"""So long rows wait for others, and so many seconds of them a kill takes along."""
WAITING_MAX = 10_000
"""Rows in memory, where the disk stands still; later ones are left out."""
ENDING_S = 30.0
"""At the run's end the last rows are waited for so long."""
APPENDS_MAX = 5
"""Another run that makes the table at this moment changes its metadata, which an append that has
begun does not survive: nothing of it is there, and it is made again."""
UPKEEP_COMMITS = 100
"""After so many commits days that are too old go, and small files become large ones."""
FILES_HOURS = 168
"""Files that the table has no more stay so long for their readers: Delta's own default."""
PROPERTIES = {"delta.logRetentionDuration": "interval 7 days"}


class ProgressTable:
    """One run's reporter, and the thread that writes. Mutable: rows that wait, and whom to ask for
    the ends of each sink's topics."""

    def __init__(
        self,
        pipeline: str,
        path: str,
        shown: Reporter,
        *,
        now_s: Callable[[], float] = time.time,
        gather_s: float = GATHER_S,
        secrets: frozenset[str] = frozenset(),
    ) -> None:
        """`shown` is told when rows cannot be written, without `secrets`."""
        self.path = path
        self._pipeline, self._shown, self._now_s = pipeline, shown, now_s
        self._gather_s, self._secrets = gather_s, secrets
        self._changed = threading.Condition()
        self._rows: list[dict[str, Any]] = []
        self._ending = False
        self._has_told = False
        self._latest: dict[str, Callable[[], ByPartition]] = {}
        # A daemon: a disk that stands still must not keep the process.
        self._thread = threading.Thread(target=self._work, name="metrics.table", daemon=True)

    def __enter__(self) -> ProgressTable:
        """Raises SetupError where delta-rs is not there."""
        try:
            import deltalake  # noqa: F401
        except ModuleNotFoundError as error:
            needs = "it is written by delta-rs; pip install 'josefine[journal]'"
            raise SetupError(f"metrics.table: {self.path}: {needs}") from error
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(ENDING_S)
        if self._thread.is_alive():
            self._failed(f"the last rows were not written within {ENDING_S:.0f} s")

    # -- a reporter's -------------------------------------------------------------------------

    def starting(self, what: str) -> None: ...

    def begun(self, sink: str, records_to_do: int | None) -> None: ...

    def watched(
        self, sink: str, begins: ByPartition | None, latest: Callable[[], ByPartition]
    ) -> None:
        self._latest[sink] = latest

    def batch(self, done: BatchDone) -> None:
        row = row_of(self._pipeline, done, self._ends_of(done.sink), self._now_s())
        if row is None:
            return
        with self._changed:
            is_full = len(self._rows) >= WAITING_MAX
            if not is_full:
                self._rows.append(row)
                self._changed.notify_all()
        if is_full:
            self._failed(f"{WAITING_MAX:,} rows wait for the disk")

    def retrying(self, sink: str, batch: int, retry: Retry) -> None: ...

    def restarting(self, sink: str, retry: Retry) -> None: ...

    def failed(self, sink: str, line: str, left: int) -> None: ...

    def warned(self, sink: str, line: str) -> None: ...

    def upkeep_failed(self, sink: str, line: str) -> None: ...

    def group_failed(self, source: str, line: str) -> None: ...

    def table_failed(self, line: str) -> None: ...

    # -- the thread's -------------------------------------------------------------------------

    def _work(self) -> None:
        while rows := self._next():
            try:
                version = _append(self.path, rows)
            except Exception as error:
                # Delta-rs, Arrow and file systems raise what they like; the run goes on.
                self._failed(f"{counted(len(rows), 'row')} not written: {_reason(error)}")
                continue
            if version // UPKEEP_COMMITS != (version - 1) // UPKEEP_COMMITS:
                self._upkeep()

    def _next(self) -> list[dict[str, Any]]:
        """Rows to be written at once; none when the run has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._rows or self._ending)
            self._changed.wait_for(lambda: self._ending, self._gather_s)
            rows, self._rows = self._rows, []
            return rows

    def _upkeep(self) -> None:
        try:
            _clean(self.path, first_day_kept(self._now_s()))
        except Exception as error:
            # Another run's commit came between, most likely: the next hundred come soon.
            self._failed(f"old rows stay: {_reason(error)}")

    def _failed(self, why: str) -> None:
        """Once in a run: a full disk would say so for each batch."""
        if not self._has_told:
            self._has_told = True
            line = f"metrics.table: {self.path}: {why}"
            self._shown.table_failed(hidden(line, self._secrets))

    def _ends_of(self, sink: str) -> ByPartition | None:
        try:
            return self._latest[sink]()
        except Exception:
            # Spark may be about to end: a row without lag is better than none.
            return None


def _append(path: str, rows: list[dict[str, Any]]) -> int:
    """The table's version with these rows, in one commit. Makes the table where there is none."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake
    from deltalake.exceptions import CommitFailedError

    schema = _schema()
    made = pa.Table.from_pylist(rows, schema=schema)
    if not DeltaTable.is_deltatable(path):
        _make(path, schema)
    for attempt in range(1, APPENDS_MAX + 1):
        table = DeltaTable(path)
        try:
            write_deltalake(table, made, mode="append")
            break
        except CommitFailedError:
            if attempt == APPENDS_MAX:
                raise
    return table.version()


def _make(path: str, schema: Any) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    Path(path).mkdir(parents=True, exist_ok=True)
    try:
        DeltaTable.create(path, schema, partition_by=["day"], configuration=dict(PROPERTIES))
    except DeltaError:
        if not DeltaTable.is_deltatable(path):  # else another run was faster
            raise


def _clean(path: str, first_day: str) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    table = DeltaTable(path)
    try:
        table.delete(f"day < '{first_day}'")
        table.optimize.compact()
    except CommitFailedError:
        return  # somebody else was at it
    table.vacuum(retention_hours=FILES_HOURS, dry_run=False)
    table.cleanup_metadata()


def _schema() -> Any:
    import pyarrow as pa

    text, number, seconds = pa.string(), pa.int64(), pa.float64()
    place = [("topic", text), ("partition", pa.int32()), ("start", number), ("end", number)]
    return pa.schema(
        [
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("pipeline", text),
            ("sink", text),
            ("version", number),
            ("batch", number),
            ("offsets", pa.list_(pa.struct(place))),
            ("records", number),
            ("rows", number),
            ("dead_letters", number),
            ("copies", number),
            ("failed", pa.map_(text, number)),
            ("seconds", seconds),
            ("seconds_of", pa.map_(text, seconds)),
            ("lag", number),
        ]
    )


def _reason(error: Exception) -> str:
    """The first line of what a library says."""
    return (str(error).splitlines() or [type(error).__name__])[0]
