"""The statistics of a file in Delta's log: the rows of every file are within the bounds."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction

from pipelines.sinks.parquet_statistics import (
    FOOTER_TEXT_BYTES_MAX,
    TEXT_MAX,
    statistics,
    unseen_in,
)


def said(columns: dict[str, Any], columns_max: int = 32, group: int = 100) -> dict[str, Any]:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=group)
    footer = pq.read_metadata(file)
    text = statistics(footer, columns_max, unseen_in(file, footer, columns_max))
    found: dict[str, Any] = json.loads(text, parse_float=Decimal)
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


@pytest.mark.parametrize("text", ["\U00020bb7", "\U0010ffff", "x" * 40, "é", 'a"b\\c\x00'])
def test_text_of_any_plane_is_found_by_its_bounds(text: str, tmp_path: Path):
    """delta-rs reads the escape of U+20BB7 as U+10BB7."""
    schema = pa.schema([("v", pa.string())])
    DeltaTable.create(tmp_path, Schema.from_arrow(schema))
    file = tmp_path / "one.parquet"
    pq.write_table(pa.table({"v": [text]}), file)
    footer = pq.read_metadata(file)
    stats = statistics(footer, 32, unseen_in(file, footer, 32))
    table = DeltaTable(tmp_path)
    add = AddAction("one.parquet", file.stat().st_size, {}, 0, True, stats)
    table.create_write_transaction([add], "append", table.schema())

    rows = DeltaTable(tmp_path).to_pyarrow_dataset().to_table(filter=ds.field("v") >= text)

    assert rows.num_rows == 1


@pytest.mark.parametrize("size", [1, FOOTER_TEXT_BYTES_MAX + 1])
@pytest.mark.parametrize("at", [0, 1])
def test_a_text_that_is_not_utf_8_has_no_bounds(size: int, at: int):
    """Spark makes one of any bytes: CAST(value AS STRING)."""
    texts = [b"a" * (FOOTER_TEXT_BYTES_MAX + 1)] * 2
    texts[at] = b"\xff" * size
    stored = pa.array(texts, pa.binary())
    found = said({"v": pa.Array.from_buffers(pa.string(), 2, stored.buffers())}, group=1)

    assert found == {"numRecords": 2, "nullCount": {"v": 0}}


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
        [float("nan"), 1.0],
        [b"x"],
        [None, None],
    ):
        assert bounds(values) == (None, None), values
    assert said({"v": after})["nullCount"] == {"v": 0}
    assert bounds([None, None, 5], group=2) == (5, 5)


def test_without_one_bound_a_file_has_none_because_readers_take_it_for_null():
    uncertain = [float("nan"), 1.0]
    assert said({"i": [1, 2], "v": uncertain}) == {"numRecords": 2, "nullCount": {"i": 0, "v": 0}}
    # Of fields within structs delta-rs takes no bounds, and nulls alone need none.
    found = said({"i": [1, 2], "s": [{"x": each} for each in uncertain], "z": pa.nulls(2, "int8")})
    assert (found["minValues"], found["maxValues"]) == ({"i": 1, "s": {}}, {"i": 2, "s": {}})
    assert found["nullCount"] == {"i": 0, "s": {"x": 0}, "z": 2}


def test_truth_values_and_decimals_have_bounds_with_all_digits():
    wide = [Decimal("12345678901234567890123456789012345.678"), Decimal("-0.001"), None]
    assert bounds([True, None, False]) == (False, True)
    assert bounds(pa.array(wide, pa.decimal128(38, 3))) == (wide[1], wide[0])


def test_both_zeros_are_within_the_bounds():
    low, top = (str(each) for each in bounds([0.0, -0.0]))
    assert (low, top) == ("-0.0", "0.0")


def test_texts_that_are_too_long_for_the_footer_have_bounds():
    long = "x" * 5_000
    assert bounds([f"{long}a", "b", None]) == ("b", "x" * TEXT_MAX + "\U0010ffff")
    assert bounds([f"{long}a", "b", "y"], group=1) == ("b", "y")
    assert bounds([f"{long}a", None], group=1) == ("x" * TEXT_MAX, "x" * TEXT_MAX + "\U0010ffff")


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
