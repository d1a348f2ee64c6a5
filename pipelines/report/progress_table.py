"""Writer of the metric table (`metrics.table`): one row per finished batch, in a Delta table on the
driver's machine or in S3.

Rules: it must not delay a batch or end a run. A thread of its own writes several rows at once with
delta-rs, so without a Spark job. Rows that cannot be written are dropped, with one warning per run.
A row is written at most once: the commit of a batch is the reliable record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from josefine_broker.base.install_commands import install_command
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base.errors import SetupError, first_line
from pipelines.base.plurals import counted
from pipelines.base.variables import hidden
from pipelines.report.events import BatchDone, LagMs, Reporter
from pipelines.report.progress_rows import first_day_kept, row_of

GATHER_S = 5.0
"""How long rows are collected; a kill loses the rows of this time."""
WAITING_MAX = 10_000
"""Maximum of rows in memory if the disk hangs; later ones are dropped."""
ENDING_S = 30.0
"""How long the end of a run waits for the last rows."""
APPENDS_MAX = 5
"""Attempts of an append. If another run creates the table at this moment, its metadata change makes
a started append fail without effect, and the append is repeated."""
UPKEEP_COMMITS = 100
"""Number of commits between two cleanups, which delete old days and compact small files."""
FILES_HOURS = 168
"""Retention of removed files for readers: Delta's default."""
PROPERTIES = {"delta.logRetentionDuration": "interval 7 days"}


class _At(NamedTuple):
    """Where the table is, and the storage options of delta-rs."""

    path: str
    options: dict[str, str]


class ProgressTable(Reporter):
    """The reporter of one run, and the thread that writes. Mutable: pending rows, and the functions
    that return the end offsets of each sink's topics."""

    def __init__(
        self,
        pipeline: str,
        path: str,
        shown: Reporter,
        *,
        now_s: Callable[[], float] = time.time,
        gather_s: float = GATHER_S,
        secrets: frozenset[str] = frozenset(),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """`shown` is notified if rows cannot be written; `secrets` are masked; `options`: the
        storage options of delta-rs."""
        self._at = _At(path, dict(options or {}))
        self._pipeline, self._shown, self._now_s = pipeline, shown, now_s
        self._gather_s, self._secrets = gather_s, secrets
        self._changed = threading.Condition()
        self._rows: list[dict[str, Any]] = []
        self._ending = False
        self._has_told = False
        self._latest: dict[str, Callable[[], ByPartition]] = {}
        # A daemon: a hanging disk must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="metrics.table", daemon=True)

    @property
    def path(self) -> str:
        return self._at.path

    def __enter__(self) -> ProgressTable:
        """Raises SetupError if delta-rs is not installed."""
        try:
            import deltalake  # noqa: F401
        except ModuleNotFoundError as error:
            needs = f"it is written by delta-rs; {install_command('journal')}"
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

    def watched(
        self,
        sink: str,
        begins: ByPartition | None,
        latest: Callable[[], ByPartition],
        lag_ms: LagMs | None = None,
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

    # -- the thread's -------------------------------------------------------------------------

    def _work(self) -> None:
        while rows := self._next():
            try:
                version = _append(*self._at, rows)
            except Exception as error:
                # Delta-rs, Arrow and file systems raise many types; the run continues.
                self._failed(f"{counted(len(rows), 'row')} not written: {first_line(error)}")
                continue
            if version // UPKEEP_COMMITS != (version - 1) // UPKEEP_COMMITS:
                self._upkeep()

    def _next(self) -> list[dict[str, Any]]:
        """The next rows to write together; none after the end of the run."""
        with self._changed:
            self._changed.wait_for(lambda: self._rows or self._ending)
            self._changed.wait_for(lambda: self._ending, self._gather_s)
            rows, self._rows = self._rows, []
            return rows

    def _upkeep(self) -> None:
        try:
            _clean(*self._at, first_day_kept(self._now_s()))
        except Exception as error:
            # Most likely a conflict with another run's commit; the next cleanup comes soon.
            self._failed(f"old rows stay: {first_line(error)}")

    def _failed(self, why: str) -> None:
        """Warn once per run: a full disk would cause a warning for each batch."""
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


def _append(path: str, options: dict[str, str], rows: list[dict[str, Any]]) -> int:
    """Append these rows in one commit; returns the version. Creates the table if necessary."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake
    from deltalake.exceptions import CommitFailedError

    schema = _schema()
    made = pa.Table.from_pylist(rows, schema=schema)
    if _opened(path, options) is None:
        _make(path, schema, options)
    for attempt in range(1, APPENDS_MAX + 1):
        table = DeltaTable(path, storage_options=options)
        try:
            write_deltalake(table, made, mode="append")
            break
        except CommitFailedError:
            if attempt == APPENDS_MAX:
                raise
    return table.version()


def _opened(path: str, options: dict[str, str]) -> Any:
    """The table; None if there is none. `DeltaTable.is_deltatable` would stop every other thread
    until a store answers, because it keeps Python's lock."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(path, storage_options=options)
    except TableNotFoundError:
        return None


def _make(path: str, schema: Any, options: dict[str, str]) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)
    try:
        DeltaTable.create(
            path,
            schema,
            partition_by=["day"],
            configuration=dict(PROPERTIES),
            storage_options=options,
        )
    except DeltaError:
        if _opened(path, options) is None:  # otherwise another run was faster
            raise


def _clean(path: str, options: dict[str, str], first_day: str) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    table = DeltaTable(path, storage_options=options)
    try:
        table.delete(f"day < '{first_day}'")
        table.optimize.compact()
    except CommitFailedError:
        return  # another run changed it
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
