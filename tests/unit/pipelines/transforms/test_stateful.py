"""Late rows of a query and cached batches of a state."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.transforms.stateful import LateRows, held, held_and_counted
from tests.unit.pipelines.tiny_spark import Frame

pytest.importorskip("pyspark")


def query(*batches):
    """A query with progress of (batch, late rows of each operator; None: a batch without data)."""

    def progress(number, late):
        has_data = late is not None
        operators = [SimpleNamespace(numRowsDroppedByWatermark=lambda n=n: n) for n in late or [9]]
        keys = SimpleNamespace(containsKey=lambda name: name == "addBatch" and has_data)
        return SimpleNamespace(
            batchId=lambda: number, durationMs=lambda: keys, stateOperators=lambda: operators
        )

    made = [progress(*each) for each in batches]
    return SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: made))


def test_late_rows_of_each_batch_are_counted_once():
    late = LateRows()

    assert late.of(query((0, [1]), (1, [2, 3]))) == 6
    assert late.of(query((0, [1]), (1, [2, 3]))) == 0
    assert late.of(query((1, [2, 3]), (2, [4]))) == 4


def test_a_trigger_without_data_repeats_no_count_and_hides_no_later_one():
    late = LateRows()

    assert late.of(query((0, [1]), (1, None))) == 1
    assert late.of(query((1, None), (1, [5]))) == 5


def test_a_batch_is_computed_once_and_counted():
    frame = Frame([{"a": True}, {"a": False}])

    kept, count = held_and_counted(frame, "a")

    assert (count, frame.cached) == (1, 1)
    kept.unpersist()
    assert frame.cached == 0


def test_nothing_stays_cached_after_a_failure():
    class Broken(Frame):
        def where(self, condition):
            raise OSError("lost")

    frame = Broken([{"a": 1}])

    with pytest.raises(OSError, match="lost"):
        held(frame)

    assert frame.cached == 0
