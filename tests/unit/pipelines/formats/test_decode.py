"""No record is lost silently: it is a good row, it is left out on request, or it is a dead letter
with its reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.formats.decode import (
    OBJECTS,
    REASONS,
    UNREADABLE,
    UNREADABLE_REASON,
    Side,
    bad_rows,
    good_rows,
    parsed,
)
from pipelines.formats.json import JsonValues
from pipelines.formats.text import TextValues
from tests.unit.pipelines.tiny_spark import Frame

types = pytest.importorskip("pyspark.sql.types")
pytestmark = pytest.mark.usefixtures("tiny_spark")
BAD = b"\xff"


def records(*pairs, **more) -> Frame:
    return Frame(
        {"key": key, "value": value, "topic": "t", "partition": 0, "offset": n, "timestamp": n,
         **more}
        for n, (key, value) in enumerate(pairs)
    )  # fmt: skip


def value_side(**how) -> Side:
    return Side(column="value", values=TextValues(), **how)


def key_side(**how) -> Side:
    return Side(column="key", values=TextValues(), null_is_good=True, **how)


def split(frame: Frame, *reading: Side) -> tuple[list, list]:
    """(offset and value of the good rows, offset and reason of the bad ones)."""
    made = parsed(frame, reading)
    good, bad = good_rows(made, reading), bad_rows(made, reading, "src")
    assert not [name for name in good.columns if name.startswith("_")]
    return (
        [(row["offset"], row["value"]) for row in good.rows],
        [(row["offset"], row["reason"]) for row in bad.rows],
    )


def test_a_value_that_does_not_fit_is_a_dead_letter_with_its_reason():
    assert split(records((None, b"a"), (None, BAD), (None, None)), value_side()) == (
        [(0, "a")],
        [(1, "not UTF-8 text"), (2, "the value is null")],
    )


def test_null_is_a_good_value_where_tombstones_are_rows_and_is_left_out_where_they_are_not():
    frame = records((None, None), (None, b"a"))

    assert split(frame, value_side(null_is_good=True)) == ([(0, None), (1, "a")], [])
    assert split(frame, value_side(null_is_good=True, leaves_out_null=True)) == ([(1, "a")], [])


def test_a_bad_value_is_null_on_request_and_then_no_dead_letter():
    assert split(records((None, BAD), (None, b"a")), value_side(null_for_bad=True)) == (
        [(0, None), (1, "a")],
        [],
    )


def test_a_record_is_good_if_both_sides_are_and_has_the_reasons_of_both_if_not():
    frame = records((b"k", b"a"), (BAD, b"a"), (BAD, BAD), (None, b"a"))

    assert split(frame, value_side(), key_side()) == (
        [(0, "a"), (3, "a")],
        [(1, "key: not UTF-8 text"), (2, "not UTF-8 text; key: not UTF-8 text")],
    )


@given(
    st.lists(st.tuples(st.sampled_from([None, b"k", BAD]), st.sampled_from([None, b"v", BAD]))),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_each_record_is_once_a_good_row_or_a_dead_letter(pairs, nulls, tombstones, with_key):
    sides = (value_side(null_for_bad=nulls, null_is_good=tombstones),)
    sides += (key_side(),) if with_key else ()

    good, bad = split(records(*pairs), *sides)

    assert sorted(n for n, _ in [*good, *bad]) == list(range(len(pairs)))
    assert all(reason for _, reason in bad)


def test_an_unreadable_batch_is_bad_also_for_a_format_that_takes_any_bytes():
    mark = {"start_offset": 4, "end_offset": 9, "cause": "crc"}
    frame = records((None, b"the batch"), **{UNREADABLE: mark})
    frame.rows.append({**frame.rows[0], "offset": 9, UNREADABLE: None})

    assert split(frame, value_side()) == (
        [(9, "the batch")],
        [(0, f"{UNREADABLE_REASON}4 to 8: crc")],
    )


def test_values_that_the_source_has_decoded_are_taken_from_it():
    kind = types.StructType().add("id", "integer")
    side = Side(column="value", values=JsonValues(kind))
    frame = records((None, b"1"), **{OBJECTS: {"id": 1}, REASONS: None})
    frame.rows.append({**frame.rows[0], "offset": 1, OBJECTS: None, REASONS: "not JSON"})

    assert split(frame, side) == ([(0, {"id": 1})], [(1, "not JSON")])


def test_dead_letters_have_the_bytes_and_the_headers():
    (row,) = bad_rows(
        parsed(records((b"k", BAD), headers=["h"]), (value_side(),)), (value_side(),), "src"
    ).rows

    assert (row["source"], row["key"], row["value"], row["headers"]) == ("src", b"k", BAD, ["h"])
