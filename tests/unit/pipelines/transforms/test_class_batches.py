"""A Python class gets a test's batches as a query would give them: late rows, timers, keys."""

from __future__ import annotations

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from pipelines.base.errors import Place
from pipelines.model.keyed_state import KeyedState
from pipelines.transforms.class_batches import Timed, given

SECOND, DELAY = 1_000, 10_000


class Silent(StatefulProcessor):
    """A row for each key whose newest row is 30 s old, by the clock of its timers."""

    def __init__(self, timers: str = "event_time") -> None:
        self.timers = timers
        self.is_closed = False

    def init(self, handle) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", "n INT")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        times = [row.at_ms for row in rows]
        n = len(times) + (self.seen.get()[0] if self.seen.exists() else 0)
        self.seen.update((n,))
        if self.timers == "none":
            yield Row(key, n, timerValues.getCurrentWatermarkInMs())
            return
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        now = max(times)
        if self.timers == "processing_time":
            now = timerValues.getCurrentProcessingTimeInMs()
        self.handle.registerTimer(now + 30 * SECOND)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803
        yield Row(key, self.seen.get()[0], expiredTimerInfo.getExpiryTimeInMs())
        self.seen.clear()

    def close(self) -> None:
        self.is_closed = True


def rows_given(timers, *batches, keys=("k",), delay_ms=DELAY):
    """What the class gives; a batch is (the clock in seconds, (key, second) of each row)."""
    place = Place(file="f.yaml", line=1, column=1)
    state = KeyedState(
        keys=keys, key_places=(place,), schema="", schema_place=place, schema_path="",
        timers=timers, ttl_ms=None,
    )  # fmt: skip
    processor = Silent(timers)
    made = [
        (
            [Timed(Row(k=k, j=1, at_ms=at * SECOND), at * SECOND) for k, at in rows],
            clock * SECOND,
        )
        for clock, *rows in batches
    ]
    found = [tuple(row) for row in given(processor, state, delay_ms, made)]
    assert processor.is_closed
    return found


def test_a_timer_rings_after_the_batch_whose_rows_move_the_watermark_past_it():
    quiet = (0, ("a", 1), ("b", 5))
    assert rows_given("event_time", quiet) == []
    assert rows_given("event_time", quiet, (0, ("c", 40))) == []

    assert rows_given("event_time", quiet, (0, ("c", 41))) == [(("a",), 1, 31_000)]
    assert rows_given("event_time", quiet, (0, ("c", 45))) == [
        (("a",), 1, 31_000),
        (("b",), 1, 35_000),
    ]


def test_a_row_moves_its_keys_timer_and_the_state_is_that_of_the_batch_before():
    found = rows_given("event_time", (0, ("a", 1)), (0, ("a", 20)), (0, ("c", 60)))

    assert found == [(("a",), 2, 50_000)]


@pytest.mark.parametrize(("at", "count"), [(20, 1), (21, 2)])
def test_a_late_row_is_left_out_with_timers_of_event_time_alone(at, count):
    batches = ((0, ("a", 25), ("b", 30)), (0, ("a", at)), (0, ("z", 999)))

    by_key = {key: n for key, n, _ in rows_given("event_time", *batches)}
    assert by_key == {("a",): count, ("b",): 1}
    assert len(rows_given("none", *batches)) == 4


def test_timers_of_a_clock_go_by_the_newest_record_and_not_by_the_rows():
    found = rows_given("processing_time", (100, ("a", 5)), (129, ("b", 999)), (130, ("b", 999)))

    assert found == [(("a",), 1, 130_000)]


def test_the_key_has_every_column_and_no_clock_is_given_where_none_is_named():
    found = rows_given("none", (7, ("a", 1), ("b", 1)), (8, ("a", 2)), keys=("k", "j"))

    assert found == [(("a", 1), 1, -1), (("b", 1), 1, -1), (("a", 1), 2, -1)]


def test_without_a_watermark_no_event_time_passes():
    assert rows_given("event_time", (0, ("a", 1)), (0, ("b", 999)), delay_ms=None) == []
