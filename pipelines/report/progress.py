"""Progress display of a run: bars on a terminal, plain lines elsewhere. Writes only to stderr, so
that stdout contains only the result."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from pipelines.base.plurals import counted
from pipelines.model.pipeline import Pipeline
from pipelines.model.retry_policy import Retry
from pipelines.report.events import BatchDone, Reporter
from pipelines.report.json_progress import JsonReporter
from pipelines.report.throughput import Pacing


class LineReporter(Reporter):
    """One line per event, for logs and pipes."""

    def __init__(
        self,
        console: Console,
        now_s: Callable[[], float] = time.monotonic,
        *,
        begins: str = "",
    ) -> None:
        """`begins`: the prefix of every line."""
        self._console = console
        self._begins = begins
        self._now_s = now_s
        self._pacing = Pacing()
        self._lock = threading.Lock()
        self._done: dict[str, int] = {}
        self._to_do: dict[str, int | None] = {}

    def starting(self, what: str) -> None:
        self._say(f"preparing {what}")

    def begun(self, sink: str, records_to_do: int | None) -> None:
        self._to_do[sink] = records_to_do
        self._pacing.begun(sink, records_to_do)
        self._done.pop(sink, None)
        so_many = (
            "waiting for records" if records_to_do is None else counted(records_to_do, "record")
        )
        self._say(f"sink {sink}: {so_many}")

    def watched(self, sink: str, begins: Any, latest: Any, lag_ms: Any = None) -> None:
        self._pacing.watched(sink, latest)

    def batch(self, done: BatchDone) -> None:
        with self._lock:
            so_far = self._done.get(done.sink, 0) + done.records
            self._done[done.sink] = so_far
        total = self._to_do.get(done.sink)
        of = f"{so_far:,} of " if total is not None else ""
        records = of + counted(so_far if total is None else total, "record")
        what = ": already in the table" if done.already_there else f", {records}"
        line = f"sink {done.sink}: batch {done.batch}{what}"
        if done.dead_letters:
            line += f", {counted(done.dead_letters, 'dead letter')}"
        if done.skipped:
            line += f", {counted(done.skipped, 'record')} of other types skipped"
        for name, each in done.checked.items():
            line += f", {each.failed:,} failed check {name}" if each.failed else ""
        if not done.already_there:
            line += f"; {self._pacing.batch(done, self._now_s()).told()}"
        self._say(line)

    def retrying(self, sink: str, batch: int, retry: Retry) -> None:
        self._say(retrying_line(sink, batch, retry))

    def restarting(self, sink: str, retry: Retry) -> None:
        self._say(restarting_line(sink, retry))

    def failed(self, sink: str, line: str, left: int) -> None:
        if left:
            self._say(failed_line(sink, line, left))

    def warned(self, sink: str, line: str) -> None:
        self._say(f"sink {sink}: {line}")

    def upkeep_failed(self, sink: str, line: str) -> None:
        self._say(f"sink {sink}: {line}")

    def group_failed(self, source: str, line: str) -> None:
        self._say(f"source {source}: {line}")

    def table_failed(self, line: str) -> None:
        self._say(line)

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def _say(self, line: str) -> None:
        self._console.print(self._begins + line, highlight=False, soft_wrap=True)


class BarReporter(Reporter):
    """One bar per sink, in records."""

    def __init__(self, console: Console, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._pacing = Pacing()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._tasks: dict[str, Any] = {}
        self._preparing: Any = None

    def starting(self, what: str) -> None:
        text = f"preparing {what}"
        if self._preparing is None:
            self._preparing = self._progress.add_task(text, total=None, pace="")
        self._progress.update(self._preparing, description=text)

    def begun(self, sink: str, records_to_do: int | None) -> None:
        self._end_preparing()
        self._pacing.begun(sink, records_to_do)
        if sink in self._tasks:
            self._progress.remove_task(self._tasks[sink])
        self._tasks[sink] = self._progress.add_task(sink, total=records_to_do, pace="")

    def _end_preparing(self) -> None:
        if self._preparing is not None:
            self._progress.remove_task(self._preparing)
            self._preparing = None

    def watched(self, sink: str, begins: Any, latest: Any, lag_ms: Any = None) -> None:
        self._pacing.watched(sink, latest)

    def batch(self, done: BatchDone) -> None:
        task_id = self._tasks[done.sink]
        self._progress.advance(task_id, done.records)
        if not done.already_there:
            pace = self._pacing.batch(done, self._now_s())
            self._progress.update(task_id, pace=pace.told())

    def retrying(self, sink: str, batch: int, retry: Retry) -> None:
        self._progress.console.print(retrying_line(sink, batch, retry), highlight=False)

    def restarting(self, sink: str, retry: Retry) -> None:
        self._progress.console.print(restarting_line(sink, retry), highlight=False)

    def failed(self, sink: str, line: str, left: int) -> None:
        self._end_preparing()
        if sink in self._tasks:
            self._progress.stop_task(self._tasks[sink])
        if left:
            self._progress.console.print(failed_line(sink, line, left), highlight=False)

    def warned(self, sink: str, line: str) -> None:
        self._progress.console.print(f"sink {sink}: {line}", highlight=False)

    def upkeep_failed(self, sink: str, line: str) -> None:
        self._progress.console.print(f"sink {sink}: {line}", highlight=False)

    def group_failed(self, source: str, line: str) -> None:
        self._progress.console.print(f"source {source}: {line}", highlight=False)

    def table_failed(self, line: str) -> None:
        self._progress.console.print(line, highlight=False)

    def __enter__(self) -> BarReporter:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def retrying_line(sink: str, batch: int, retry: Retry) -> str:
    """The line for a retried commit."""
    return f"sink {sink}: batch {batch}: {retry.says}, the commit is tried again"


def restarting_line(sink: str, retry: Retry) -> str:
    """The line for a restarted sink."""
    return f"sink {sink}: {retry.says}, it restarts after its last commit"


def failed_line(sink: str, line: str, left: int) -> str:
    """The line for a sink that failed for good."""
    continues = "the other one continues" if left == 1 else f"the other {left} continue"
    return f"sink {sink} failed: {line}; {continues}"


class _Unheard(io.TextIOWrapper):
    """Write optional text: a closed terminal or pipe must not end a run."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


def unheard(descriptor: int) -> io.TextIOWrapper:
    """A stream for progress on a descriptor, which it closes; it ignores write errors."""
    return _Unheard(
        io.FileIO(descriptor, "w"), encoding="utf-8", errors="replace", write_through=True
    )


def reporter_for(
    console: Console, pipeline: Pipeline, *, is_one_of_many: bool = False
) -> LineReporter | BarReporter | JsonReporter:
    """Bars on a terminal, JSON objects if the file asks for them. If several pipelines run
    together: lines with the pipeline's name."""
    if pipeline.json_log:
        return JsonReporter(console.file, pipeline.name)
    if is_one_of_many:
        return LineReporter(console, begins=f"{pipeline.name}: ")
    return BarReporter(console) if console.is_terminal else LineReporter(console)
