"""The MERGE of an upsert, word for word; what it does to rows is in tests/spark/pipelines."""

from __future__ import annotations

import pytest

from pipelines.base.errors import Place
from pipelines.model.pipeline import Latest, Mode, Placed, Sink
from pipelines.transforms.upsert import upsert

types = pytest.importorskip("pyspark.sql.types")
PLACE = Place(file="f", line=1, column=1)


def merge_of(*, deletes: bool, marks: bool = False, extra=(), order=("at", "_offset")):
    condition = Placed(text="op = 'd'", place=PLACE, path="") if deletes else None
    latest = Latest(columns=order, places=(), delete_when=condition, marks=marks)
    sink = Sink(
        name="s", place=PLACE, input="", path=None, table=None, keys=("id",), aggregates=(),
        mode=Mode.UPSERT, latest=latest,
    )  # fmt: skip
    names = ("id", "at", "_offset", "name", *extra)
    fields = [types.StructField(name, types.StringType()) for name in names]
    return upsert(sink, types.StructType(fields))


def later(*terms):
    sides = (
        ", ".join(f"{term.replace('?', side)} AS c{n}" for n, term in enumerate(terms))
        for side in "st"
    )
    return " > ".join(f"struct({side})" for side in sides)


def test_a_row_takes_the_place_of_an_earlier_one_whole():
    merge = merge_of(deletes=False)

    assert merge.update_when == later("?.`at`", "?.`_offset`", "?.`name`")
    assert (merge.delete_when, merge.insert_when) == (None, None)
    assert merge.columns == ("id", "at", "_offset", "name")
    assert merge.update["name"] == "s.`name`"


def test_deletes_that_remove_are_compared_as_such_and_inserted_nowhere():
    merge = merge_of(deletes=True, extra=("_josefine_deleted",))

    in_table = "struct(t.`at` AS c0, t.`_offset` AS c1, false AS c2, t.`name` AS c3)"
    assert merge.update_when is not None
    assert merge.update_when.endswith(f" > {in_table}")
    assert "s.`_josefine_deleted` AS c2" in merge.update_when
    assert merge.delete_when == f"s.`_josefine_deleted` AND {merge.update_when}"
    assert merge.insert_when == "NOT s.`_josefine_deleted`"
    assert "_josefine_deleted" not in merge.columns


def test_marked_rows_are_rows():
    merge = merge_of(deletes=True, marks=True, extra=("_deleted",))

    assert merge.update_when == later("?.`at`", "?.`_offset`", "?.`_deleted`", "?.`name`")
    assert (merge.delete_when, merge.insert_when) == (None, None)
    assert merge.update["_deleted"] == "s.`_deleted`"


@pytest.mark.parametrize(
    ("kind", "ordered"),
    [
        (types.MapType(types.StringType(), types.LongType()), False),
        (types.VariantType(), False),
        (types.ArrayType(types.StructType([types.StructField("v", types.VariantType())])), False),
        (types.ArrayType(types.LongType()), True),
        (types.BinaryType(), True),
    ],
)
def test_what_spark_does_not_compare_is_compared_as_json(kind, ordered):
    latest = Latest(columns=("at",), places=())
    sink = Sink(
        name="s", place=PLACE, input="", path=None, table=None, keys=("id",), aggregates=(),
        mode=Mode.UPSERT, latest=latest,
    )  # fmt: skip
    schema = types.StructType(
        [types.StructField("at", types.LongType()), types.StructField("x", kind)]
    )

    assert ("to_json(s.`x`)" in str(upsert(sink, schema).update_when)) is not ordered
