"""Rows of a micro-batch: read once, and nothing stays cached after a failure."""

from __future__ import annotations

import pytest

from pipelines.formats.decode import SKIPPED, Side
from pipelines.formats.text import TextValues
from pipelines.run.batch_input import RowsIn, SparkRows, rows_of_source, rows_of_state
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.tiny_spark import Frame

pytest.importorskip("pyspark")
pytestmark = pytest.mark.usefixtures("tiny_spark")

STRING = read(GOOD.replace('format: json, schema: "id INT"', "format: string"))[0].sources["raw"]
STATEFUL = read(GOOD)[0].transforms["clean"]
READING = (Side(column="value", values=TextValues()),)


class Caching(Frame):
    """A frame that notes each frame made of it that is cached."""

    def __init__(self, rows, held=None):
        super().__init__(rows)
        self.held = [] if held is None else held

    def _of(self, rows, columns):
        made = Caching(rows, self.held)
        made.columns = [*columns]
        return made

    def persist(self):
        self.held.append(self)
        return self

    def unpersist(self):
        self.held.remove(self)


def records(*values, held=None):
    return Caching([{"value": value, "offset": n} for n, value in enumerate(values)], held)


@pytest.mark.parametrize("keeps", [True, False])
def test_rows_that_several_steps_use_are_cached_until_they_are_freed(keeps):
    frame = records(b"a", b"\xff")

    found = rows_of_source(frame, STRING, READING, keeps=keeps, counts=False)

    assert [row["value"] for row in found.good.rows] == ["a"]
    assert [*found.parsed] == ["raw"]
    assert found.bad is None
    assert len(frame.held) == keeps
    found.free()
    assert frame.held == []


def test_freed_rows_are_given_back_to_the_other_sinks():
    given_back = []

    RowsIn(parsed={}, good=Frame([]), give_back=lambda: given_back.append(1)).free()

    assert given_back == [1]


def test_rows_of_a_state_are_those_of_its_node_with_each_sources_records():
    frame = records(b"row")
    again = records(b"a", held=frame.held)

    found = rows_of_state(frame, STATEFUL, [STRING], lambda source: again)

    assert (found.node, found.good, [*found.parsed]) == ("clean", frame, ["raw"])
    assert len(frame.held) == 2
    found.free()
    assert frame.held == []


def test_nothing_of_a_state_stays_cached_after_a_source_that_cannot_be_read():
    frame = records(b"row")
    again = iter([records(b"a", held=frame.held)])

    with pytest.raises(StopIteration):
        rows_of_state(frame, STATEFUL, [STRING, STRING], lambda source: next(again))

    assert frame.held == []


def test_records_of_other_types_are_counted_where_a_source_skips_them():
    skipping = Frame([{SKIPPED: True}, {SKIPPED: False}, {SKIPPED: True}])
    rows_in = RowsIn(parsed={"a": skipping, "b": Frame([{"x": 1}])}, good=skipping)

    assert SparkRows(None, rows_in, None).skipped() == 2
