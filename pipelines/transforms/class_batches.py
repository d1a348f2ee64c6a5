"""Micro-batches through a Python class with a state, without a query, for tests of a file.

The class's state is in PySpark's own in-memory handle. After the rows of each batch the watermark
moves, and timers up to it ring, as in a run that waits between its batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import ConfigError, RunError
from pipelines.base.quoting import quoted
from pipelines.model.keyed_state import KeyedState
from pipelines.model.pipeline import Transform
from pipelines.transforms.python_function import of_user
from pipelines.transforms.python_state import TIME_MODES, processor_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_TIME = -1
"""What Spark gives a class as the time of a clock that its `timers` do not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The input rows of one batch, and the clock's time then."""

    rows: DataFrame
    clock_ms: int


@dataclass(frozen=True, slots=True)
class Timed:
    """A row and its event time; None without one."""

    row: Any
    at_ms: int | None


def rows_of(transform: Transform, batches: Sequence[Batch]) -> DataFrame:
    """All rows that the class gives for batches that follow each other. Raises ConfigError for what
    is wrong with the class or its columns, RunError for an error of its code."""
    state = transform.state
    assert state is not None
    session = batches[0].rows.sparkSession
    made = [(_timed(transform, each.rows), each.clock_ms) for each in batches]
    delay_ms = next((mark.delay_ms for mark in transform.watermarks), None)
    processor = processor_of(transform)
    try:
        found = of_user(transform, lambda: [*given(processor, state, delay_ms, made)])
    except ConfigError as error:
        raise RunError(f"transform `{transform.name}`: {error.problems[0].message}") from error
    try:
        return session.createDataFrame(found, state.schema)
    except (TypeError, ValueError) as error:
        what = f"transform `{transform.name}`: a row of the class does not fit `schema`: {error}"
        raise RunError(what) from error


def _timed(transform: Transform, rows: DataFrame) -> list[Timed]:
    from pyspark.sql import functions as F  # noqa: N812

    marks = [mark for mark in transform.watermarks if mark.input == transform.inputs[0]]
    at = F.lit(None).cast("bigint")
    if marks:
        at = F.unix_millis(F.col(quoted(marks[0].column)).cast("timestamp"))
    every = F.struct(*[F.col(quoted(name)) for name in rows.columns])
    return [Timed(row, at_ms) for row, at_ms in rows.select(every, at).collect()]


def given(
    processor: Any,
    state: KeyedState,
    delay_ms: int | None,
    batches: Iterable[tuple[Sequence[Timed], int]],
) -> Iterator[Any]:
    """The rows that an object of the class gives for batches, each with its time of the clock.
    `delay_ms`: the watermark's; None without one."""
    keyed = _Keyed(processor, state.timers, state.keys)
    watermark_ms = 0
    for rows, clock_ms in batches:
        yield from keyed.rows(rows, watermark_ms, clock_ms)
        newest = max((each.at_ms for each in rows if each.at_ms is not None), default=0)
        if delay_ms is not None:
            watermark_ms = max(watermark_ms, newest - delay_ms)
        yield from keyed.expired(watermark_ms, clock_ms)
    processor.close()


class _Keyed:
    """The state of all keys. Mutable: it is the state."""

    def __init__(self, processor: Any, timers: str, keys: Sequence[str]) -> None:
        from pyspark.sql.streaming.tws_tester import TwsTester

        self._processor, self._timers, self._names = processor, timers, keys
        # Its own loop takes keys of one column only, and leaves the watermark to the caller.
        made: Any = TwsTester(
            processor, timeMode=TIME_MODES[timers], eventTimeExtractor=lambda _: 0
        )
        self._handle = made.handle
        self._keys: dict[tuple[Any, ...], None] = {}

    def rows(self, rows: Iterable[Timed], watermark_ms: int, clock_ms: int) -> Iterator[Any]:
        """The rows that the class gives for those of a batch, each key's together."""
        by_key: dict[tuple[Any, ...], list[Any]] = {}
        for each in rows:
            is_late = each.at_ms is not None and each.at_ms <= watermark_ms
            if not (is_late and self._timers == "event_time"):
                by_key.setdefault(tuple(each.row[name] for name in self._names), []).append(
                    each.row
                )
        values = self._values(watermark_ms, clock_ms)
        for key, some in by_key.items():
            self._keys[key] = None
            self._handle.setGroupingKey(key)
            yield from self._processor.handleInputRows(key, iter(some), values)

    def expired(self, watermark_ms: int, clock_ms: int) -> Iterator[Any]:
        """The rows that it gives for the timers that ring."""
        from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

        if self._timers == "none":
            return
        until_ms = watermark_ms if self._timers == "event_time" else clock_ms
        self._handle.setWatermark(watermark_ms)
        values = self._values(watermark_ms, clock_ms)
        for key in self._keys:
            self._handle.setGroupingKey(key)
            for timer in [each for each in self._handle.listTimers() if each <= until_ms]:
                found = self._processor.handleExpiredTimer(key, values, ExpiredTimerInfo(timer))
                yield from found
                self._handle.deleteTimer(timer)

    def _values(self, watermark_ms: int, clock_ms: int) -> Any:
        from pyspark.sql.streaming.stateful_processor import TimerValues

        if self._timers == "none":
            return TimerValues(_NO_TIME, _NO_TIME)
        is_event_time = self._timers == "event_time"
        return TimerValues(clock_ms, watermark_ms if is_event_time else _NO_TIME)
