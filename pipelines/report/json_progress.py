"""JSON progress: one object per line, in the format of the broker's log (`logging.format` json),
for log collectors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import IO, Any

from josefine_broker.host.events import JsonFormatter
from pipelines.model.retry_policy import Retry
from pipelines.report.events import BatchDone, Reporter
from pipelines.report.throughput import Pacing


class JsonReporter(Reporter):
    """A reporter that logs a constant message and fields for each kind of event."""

    def __init__(
        self, stream: IO[str], pipeline: str, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._pipeline = pipeline
        self._now_s = now_s
        self._pacing = Pacing()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(JsonFormatter())
        # A logger of its own: other log lines of the process keep their handlers.
        self._log = logging.Logger("josefine.pipelines", logging.INFO)
        self._log.addHandler(handler)

    def starting(self, what: str) -> None:
        self._say(logging.INFO, "preparing", what=what)

    def begun(self, sink: str, records_to_do: int | None) -> None:
        self._pacing.begun(sink, records_to_do)
        self._say(logging.INFO, "sink begins", sink=sink, records_to_do=records_to_do)

    def watched(self, sink: str, begins: Any, latest: Any, lag_ms: Any = None) -> None:
        self._pacing.watched(sink, latest, lag_ms)

    def batch(self, done: BatchDone) -> None:
        where = {"sink": done.sink, "batch": done.batch}
        if done.already_there:
            self._say(logging.INFO, "batch was there", **where, dead_letters=done.dead_letters)
            return
        pace = self._pacing.batch(done, self._now_s())
        failed = {f"failed_{name}": each.failed for name, each in done.checked.items()}
        self._say(
            logging.INFO,
            "batch committed",
            **where,
            records=done.records,
            rows=done.rows,
            dead_letters=done.dead_letters,
            copies=done.copies,
            skipped=done.skipped,
            late=done.late,
            seconds=round(done.seconds, 3),
            records_per_s=None if pace.rate is None else round(pace.rate, 1),
            lag=pace.lag,
            lag_s=None if pace.lag_s is None else round(pace.lag_s, 1),
            left_s=None if pace.left_s is None else round(pace.left_s, 1),
            version=done.version,
            **failed,
        )

    def retrying(self, sink: str, batch: int, retry: Retry) -> None:
        said = {"sink": sink, "batch": batch, "reason": retry.says}
        self._say(logging.WARNING, "commit is tried again", **said)

    def restarting(self, sink: str, retry: Retry) -> None:
        said = {"sink": sink, "reason": retry.says, "pause_s": retry.pause_s}
        self._say(logging.WARNING, "sink begins again", **said)

    def failed(self, sink: str, line: str, left: int) -> None:
        self._say(logging.ERROR, "sink failed", sink=sink, reason=line, sinks_left=left)

    def warned(self, sink: str, line: str) -> None:
        self._say(logging.WARNING, "sink passes over something", sink=sink, reason=line)

    def upkeep_failed(self, sink: str, line: str) -> None:
        self._say(logging.WARNING, "upkeep failed", sink=sink, reason=line)

    def group_failed(self, source: str, line: str) -> None:
        self._say(logging.WARNING, "group not told", source=source, reason=line)

    def table_failed(self, line: str) -> None:
        self._say(logging.WARNING, "metrics not written", reason=line)

    def __enter__(self) -> JsonReporter:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def _say(self, level: int, message: str, **fields: object) -> None:
        self._log.log(level, message, extra={"pipeline": self._pipeline, **fields})
