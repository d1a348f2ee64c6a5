"""Rows get the table's types where it stores them without loss, and keep them otherwise."""

from __future__ import annotations

import pytest

from pipelines.transforms.table_types import as_typed, casts
from tests.unit.pipelines.tiny_spark import Frame

types = pytest.importorskip("pyspark.sql.types")
pytestmark = pytest.mark.usefixtures("tiny_spark")
INT, LONG, TEXT = types.IntegerType(), types.LongType(), types.StringType()


def struct(**fields):
    made = types.StructType()
    for name, kind in fields.items():
        made.add(name, kind)
    return made


@pytest.mark.parametrize(
    ("of", "to", "changed"),
    [
        (struct(a=INT), struct(a=LONG), ["a"]),
        (struct(A=INT), struct(a=LONG), ["A"]),
        (struct(a=LONG), struct(a=INT), []),
        (struct(a=INT), struct(a=INT), []),
        (struct(a=TEXT), struct(a=LONG), []),
        (struct(a=INT), struct(b=LONG), []),
    ],
)
def test_only_a_column_that_the_table_stores_wider_is_cast(of, to, changed):
    assert [*casts(of, to)] == changed


def test_of_a_merged_table_only_the_named_columns_are_cast():
    assert [*casts(struct(K=INT, n=INT), struct(k=LONG, n=LONG), {"k"})] == ["K"]


def test_fields_come_in_the_tables_order_and_spelling_and_a_missing_one_is_null():
    rows = struct(s=struct(B=INT, a=INT))
    table = struct(s=struct(a=LONG, b=INT, c=TEXT))

    value = casts(rows, table)["s"].value({"s": {"B": 2, "a": 1}})

    assert [*value] == ["a", "b", "c"]
    assert (value["a"][1], value["b"], value["c"][1]) == (1, 2, None)
    assert casts(rows, table)["s"].value({"s": None}) is None


def test_each_element_and_each_value_of_a_map_is_cast():
    rows = struct(l=types.ArrayType(INT))
    table = struct(l=types.ArrayType(LONG))

    assert [each[1] for each in casts(rows, table)["l"].value({"l": [1, 2]})] == [1, 2]


def test_rows_that_fit_are_the_same_frame():
    frame = Frame([{"a": 1}], ["a"], struct(a=INT))

    assert as_typed(frame, struct(a=INT)) is frame
