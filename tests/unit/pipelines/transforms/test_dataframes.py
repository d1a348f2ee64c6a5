"""Rows of a batch: which are bad, which become dead letters, and which the table has already."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import RunError
from pipelines.formats.decode import Side
from pipelines.formats.text import TextValues
from pipelines.model.plan import compile_plan
from pipelines.transforms import dataframes
from pipelines.transforms.ordering import PRIVATE
from pipelines.transforms.upsert import HIDDEN
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.tiny_spark import Frame

types = pytest.importorskip("pyspark.sql.types")
pytestmark = pytest.mark.usefixtures("tiny_spark")
READING = (Side(column="value", values=TextValues()),)
PLAN = compile_plan(
    read(
        GOOD.replace("on_error: fail", "on_error: dead_letter")
        + "dead_letter: { type: delta, path: /d }\n"
    )[0]
).sources["raw"]
BAD = b"\xff"


def parsed(*rows):
    return dataframes.parse(
        Frame(
            {"key": None, "value": value, "topic": "t", "partition": number, "offset": offset,
             "timestamp": 0}
            for number, offset, value in rows
        ),
        READING,
    )  # fmt: skip


def places(frame):
    return [(row["partition"], row["offset"]) for row in frame.rows]


def test_a_sinks_rows_reach_its_table_without_private_columns():
    rows = Frame([{"id": 1, f"{PRIVATE}x": 2}])

    assert dataframes.stored(rows).columns == ["id"]


def test_a_row_that_deletes_is_none_of_an_empty_table():
    rows = Frame([{"id": 1, HIDDEN: False}, {"id": 2, HIDDEN: True}])

    assert dataframes.first_rows(rows).rows == [{"id": 1}]
    assert dataframes.first_rows(Frame([{"id": 2}])).rows == [{"id": 2}]


def test_without_a_decoder_the_bytes_are_the_rows():
    frame = Frame([{"value": BAD}])

    assert dataframes.parse(frame, None) is frame
    assert dataframes.good_rows(frame, None) is frame


def test_the_first_bad_record_by_its_place_stops_the_run_with_its_reason():
    source = PLAN.source

    with pytest.raises(RunError) as caught:
        dataframes.fail_on_bad(parsed((1, 0, BAD), (0, 7, BAD), (0, 3, b"a")), source, READING)

    assert str(caught.value) == (
        "source `raw`: t-0 offset 7: not UTF-8 text; nothing of this batch was written "
        "(on_error: fail)"
    )
    dataframes.fail_on_bad(parsed((0, 3, b"a")), source, READING)


def test_dead_letters_below_the_end_of_their_table_are_not_written_again():
    frame = parsed((0, 3, BAD), (0, 4, BAD), (0, 5, b"a"), (1, 0, BAD))

    letters = dataframes.dead_letters(PLAN, frame, READING, {}, {TopicPartition("t", 0): 4})

    assert places(letters) == [(0, 4), (1, 0)]
    assert places(dataframes.dead_letters(PLAN, frame, READING, {}, {})) == [(0, 3), (0, 4), (1, 0)]


def test_types_are_those_of_sql_or_whole():
    schema = types.StructType().add("id", types.LongType()).add(
        "s", types.StructType().add("a", types.StringType(), nullable=False)
    )  # fmt: skip
    frame = Frame([], schema.names, schema)

    assert dataframes.columns(frame) == {"id": "bigint", "s": "struct<a:string>"}
    found = dataframes.types(frame)
    assert found["id"] == "long"
    assert found["s"]["fields"][0]["nullable"] is False
