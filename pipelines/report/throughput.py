"""Throughput of each sink by its last batches, and the estimated remaining time. Pure: the time is
an argument, in seconds of one clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.report.events import BatchDone, LagMs
from pipelines.report.progress_rows import lag

BATCHES = 10
"""Number of batches in the average; older ones do not reflect the current rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The state after a batch. `rate`: records per second, None before any time has passed. `lag`:
    records in the topics after the table's end, None if unknown. `lag_s`: the age of the
    oldest of them. `seconds`: of the batch. `left_s`: until everything that was available at the
    start is read; None if the run has no end."""

    rate: float | None
    lag: int | None
    seconds: float
    left_s: float | None
    lag_s: float | None = None

    def told(self) -> str:
        """In a line: `1,200/s, 40 behind, 0.8 s, 12 s left`."""
        said = [] if self.rate is None else [f"{self.rate:,.0f}/s"]
        if self.lag is not None:
            said.append(f"{self.lag:,} behind")
        said.append(f"{self.seconds:.1f} s")
        if self.left_s is not None:
            said.append(f"{span(self.left_s)} left")
        return ", ".join(said)


def span(seconds: float) -> str:
    """A rounded duration in the unit that gives a small number."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


class Pacing:
    """The throughput of all sinks of a run. Mutable: their last batches. Only a sink's own thread
    updates it."""

    def __init__(self) -> None:
        self._last: dict[str, deque[tuple[float, int]]] = {}
        self._to_do: dict[str, int | None] = {}
        self._latest: dict[str, Callable[[], ByPartition]] = {}
        self._lag_ms: dict[str, LagMs] = {}

    def begun(self, sink: str, records_to_do: int | None) -> None:
        """Also called for a restarted sink."""
        self._to_do[sink] = records_to_do
        self._last.pop(sink, None)

    def watched(
        self, sink: str, latest: Callable[[], ByPartition], lag_ms: LagMs | None = None
    ) -> None:
        """`lag_ms` costs a fetch after each batch: None where nobody reads the figure."""
        self._latest[sink] = latest
        if lag_ms is not None:
            self._lag_ms[sink] = lag_ms

    def batch(self, done: BatchDone, now_s: float) -> Pace:
        """A batch has ended now."""
        # The rate counts from the start of the first batch.
        last = self._last.setdefault(
            done.sink, deque([(now_s - done.seconds, 0)], maxlen=BATCHES + 1)
        )
        last.append((now_s, done.records))
        passed_s = now_s - last[0][0]
        rate = sum(records for _, records in [*last][1:]) / passed_s if passed_s > 0 else None
        to_do = self._to_do.get(done.sink)
        if to_do is not None:
            to_do = self._to_do[done.sink] = max(0, to_do - done.records)
        return Pace(
            rate=rate,
            lag=self._lag(done),
            seconds=done.seconds,
            left_s=to_do / rate if to_do is not None and rate else None,
            lag_s=self._lag_s(done),
        )

    def _lag(self, done: BatchDone) -> int | None:
        latest = self._latest.get(done.sink)
        if latest is None or done.already_there:
            return None
        try:
            return lag(latest(), done.ends)
        except Exception:
            # Spark may be about to end: a line without it is better than none.
            return None

    def _lag_s(self, done: BatchDone) -> float | None:
        lag_ms = self._lag_ms.get(done.sink)
        if lag_ms is None or done.already_there:
            return None
        try:
            found = lag_ms(done.ends)
        except Exception:
            # Brokers may be away: a line without it is better than none.
            return None
        return None if found is None else found / 1000
