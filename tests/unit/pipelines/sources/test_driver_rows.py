"""Rows on the driver as Arrow: each column as the source has it."""

from __future__ import annotations

from datetime import UTC, datetime

from pipelines.sources.driver_rows import table_of

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
ROW = (b"k", None, "t", 1, 2**40, AT, 0)


def test_columns_are_those_of_the_source_with_every_value_as_it_is() -> None:
    table = table_of([ROW], headers=False)

    assert table.column_names == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip
    assert tuple(table.to_pylist()[0].values()) == ROW


def test_headers_keep_their_order_and_repeated_names() -> None:
    row = (*ROW, [("b", b"1"), ("a", None), ("b", b"2")])

    (read,) = table_of([row], headers=True).column("headers").to_pylist()

    assert [(each["key"], each["value"]) for each in read] == row[7]


def test_no_rows_are_a_table_with_all_columns() -> None:
    assert table_of([], headers=True).num_columns == 8
