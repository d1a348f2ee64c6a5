"""Which aggregated tables are merged by a commit that Spark does not make."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from pipelines.model.direct_append import TableRules
from pipelines.model.direct_merge import Fold, why_not_folded, why_out_of_range
from tests.unit.pipelines.model.test_direct_append import column

FOLD = Fold(keys=("k", "at"), functions={"n": "count", "total": "sum", "last": "max"})
ROWS = (
    column("k", "string"), column("at", "timestamp"),
    column("n", "long"), column("total", "long"), column("last", "date"),
)  # fmt: skip
PLAIN = TableRules(reader=1, writer=2, columns=ROWS)
LONG_MAX = (1 << 63) - 1


def with_kind(name: str, kind: Any) -> tuple[dict[str, Any], ...]:
    return tuple(column(name, kind) if each["name"] == name else each for each in ROWS)


@pytest.mark.parametrize("rows", [ROWS, ROWS[::-1], with_kind("last", "integer")], ids=str)
def test_plain_tables_are_merged_directly(rows):
    assert why_not_folded(FOLD, replace(PLAIN, columns=rows), rows) == ""


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"writer": 5}, "version 5"),
        ({"partitions": ("k",)}, "partitioned"),
        ({"properties": {"delta.appendOnly": "true"}}, "delta.appendOnly"),
        ({"properties": {"delta.enableChangeDataFeed": "true"}}, "delta.enableChangeDataFeed"),
        ({"properties": {"delta.dataSkippingNumIndexedCols": "4"}}, "statistics"),
        ({"columns": with_kind("k", "double")}, "column k is of a type"),
        ({"columns": with_kind("total", "double")}, "column total is of a type"),
        ({"columns": with_kind("total", "decimal(20,2)")}, "column total is of a type"),
        ({"columns": with_kind("last", "boolean")}, "column last is of a type"),
        ({"columns": (*ROWS, column("more"))}, "more"),
        ({"columns": (column("k-1", "string"), *ROWS[1:])}, "other columns"),
    ],
    ids=str,
)
def test_others_are_merged_by_spark(table, why):
    rules = replace(PLAIN, **table)
    has_more = len(rules.columns) > len(ROWS)

    assert why in why_not_folded(FOLD, rules, ROWS if has_more else rules.columns) != ""


@pytest.mark.parametrize("name", ["delta.appendOnly", "delta.enableChangeDataFeed"])
def test_a_property_that_is_off_asks_nothing(name):
    assert why_not_folded(FOLD, replace(PLAIN, properties={name: "false"}), ROWS) == ""


def test_a_name_with_other_characters_is_for_spark():
    fold = Fold(keys=('k"',), functions={"n": "count"})
    rows = (column('k"', "string"), column("n", "long"))

    assert "quotes" in why_not_folded(fold, replace(PLAIN, columns=rows), rows)


def out_of_range(table: Any, batch: Any, kind: str = "long", *, is_added: bool = True) -> str:
    return why_out_of_range([("c", kind, is_added)], {"c": table}, {"c": batch})


NOTHING = (None, None)


@pytest.mark.parametrize(
    ("table", "batch", "is_in"),
    [
        ((0, LONG_MAX - 5), (1, 5), True),
        ((0, LONG_MAX - 5), (1, 6), False),
        ((-LONG_MAX, 0), (-1, 0), True),
        ((-LONG_MAX, 0), (-2, 0), False),
        # A row of one side alone keeps its value.
        ((LONG_MAX, LONG_MAX), (-9, -1), True),
        (NOTHING, (LONG_MAX, LONG_MAX), True),
        ((5, 5), NOTHING, True),
        (NOTHING, NOTHING, True),
        (None, (1, 1), False),
    ],
)
def test_a_sum_that_may_not_fit_is_for_spark(table, batch, is_in):
    assert (out_of_range(table, batch) == "") is is_in


@pytest.mark.parametrize("is_in_table", [True, False])
@pytest.mark.parametrize(
    ("kind", "value", "is_in"),
    [
        ("date", date(9999, 12, 31), False),
        ("date", date(2026, 11, 28), True),
        ("timestamp", datetime(1, 1, 1, tzinfo=UTC), False),
        ("timestamp", datetime(2026, 11, 28, tzinfo=UTC), True),
    ],
)
def test_a_time_that_other_engines_write_in_another_way_is_for_spark(
    kind, value, is_in, is_in_table
):
    both = ((value, value), NOTHING)
    table, batch = both if is_in_table else both[::-1]

    assert (out_of_range(table, batch, kind, is_added=False) == "") is is_in


def test_what_is_added_and_what_has_a_range():
    assert [*FOLD.ranged(ROWS)] == [
        ("at", "timestamp", False), ("n", "long", True), ("total", "long", True),
        ("last", "date", False),
    ]  # fmt: skip
