"""The statistics of a file in Delta's log: the rows of every file are within the bounds."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.sinks.parquet_statistics import TEXT_MAX, statistics


def said(columns: dict[str, Any], columns_max: int = 32, group: int = 100) -> dict[str, Any]:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=group)
    found: dict[str, Any] = json.loads(statistics(pq.read_metadata(file), columns_max))
    return found


def bounds(values: Any, group: int = 100) -> tuple[Any, Any]:
    found = said({"v": values}, group=group)
    return found.get("minValues", {}).get("v"), found.get("maxValues", {}).get("v")


def test_numbers_and_texts_have_bounds_over_all_row_groups_and_nulls_are_counted():
    found = said({"id": [3, None, 1, 7], "k": ["b", "a", None, None]}, group=2)

    assert found == {
        "numRecords": 4,
        "minValues": {"id": 1, "k": "a"},
        "maxValues": {"id": 7, "k": "b"},
        "nullCount": {"id": 1, "k": 2},
    }


def test_the_upper_bound_of_a_cut_text_is_above_it():
    long = "x" * TEXT_MAX
    low, top = bounds([f"{long}a", f"{long}\U0001f600"])
    assert low == long
    assert top > f"{long}\U0001f600"
    assert bounds([f"{long}\U0010ffff\U0010ffff"]) == (None, None)
    assert bounds(["é" * TEXT_MAX]) == ("é" * TEXT_MAX, "é" * TEXT_MAX)


def test_times_have_milliseconds_of_utc_and_the_upper_bound_is_rounded_up():
    zone = timezone(timedelta(hours=2))
    at = datetime(2026, 1, 1, 2, 0, 0, 1, zone)
    assert bounds(pa.array([at], pa.timestamp("us", "UTC"))) == (
        "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z",
    )  # fmt: skip
    naive = datetime(2026, 1, 1, 0, 0, 0, 2000)
    assert bounds(pa.array([naive], pa.timestamp("us"))) == ("2026-01-01T00:00:00.002",) * 2
    assert bounds([date(2026, 1, 2)]) == ("2026-01-02", "2026-01-02")


def test_a_bound_that_is_not_certain_is_left_out():
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    after = pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    for values in (
        pa.array([last], pa.timestamp("us", "UTC")),
        after,
        pa.array([2_932_897], pa.date32()),
        [float("inf"), 1.0],
        [True, False],
        [b"x"],
        [None, None],
    ):
        assert bounds(values) == (None, None), values
    assert said({"v": after})["nullCount"] == {"v": 0}
    assert bounds([None, None, 5], group=2) == (5, 5)


def test_fields_of_structs_have_statistics_and_what_follows_a_list_is_counted_right():
    found = said({
        "l": [[{"a": 1, "b": "x"}], []],
        "s": [{"in.ner": 4, "deep": {"t": "u"}}, None],
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "last": [8, 9],
    })  # fmt: skip

    assert found["minValues"] == {"s": {"in.ner": 4, "deep": {"t": "u"}}, "last": 8}
    assert found["nullCount"] == {"s": {"in.ner": 1, "deep": {"t": 1}}, "last": 0}


def test_the_first_columns_alone_have_statistics():
    columns = {"l": [[1]], "s": [{"x": 1, "y": 2}], "z": [3]}

    assert said(columns, 2)["minValues"] == {"s": {"x": 1}}
    assert said(columns, 0) == {"numRecords": 1}
    assert said(columns, -1)["minValues"] == {"s": {"x": 1, "y": 2}, "z": 3}
