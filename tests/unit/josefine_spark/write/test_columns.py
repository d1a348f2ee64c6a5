"""Columns of a write: which are needed, and of which types."""

from __future__ import annotations

import pytest

from josefine_spark.base.errors import OptionError
from josefine_spark.options.options import Connection, SinkOptions

columns = pytest.importorskip("josefine_spark.write.columns")
from josefine_spark.write.columns import COLUMNS, check_columns  # noqa: E402

types = pytest.importorskip("pyspark.sql.types")
TEXT, BYTES, INT, LONG = (
    types.StringType(), types.BinaryType(), types.IntegerType(), types.LongType(),
)  # fmt: skip


def check(option="t", **fields):
    schema = types.StructType()
    for name, kind in fields.items():
        schema.add(name.rstrip("_"), kind)
    check_columns(SinkOptions(connection=Connection(bootstrap="b:1"), topic=option), schema)


def headers(key=TEXT, value=BYTES, names=("key", "value")):
    one = types.StructType().add(names[0], key).add(names[1], value)
    return types.ArrayType(one)


def test_a_value_is_enough_and_other_columns_are_ignored():
    check(value=TEXT, more=types.DateType())
    check(None, value=BYTES, key=TEXT, topic=TEXT, partition=INT, headers=headers())


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"key": TEXT}, "a column named value is needed; there are key"),
        ({}, "a column named value is needed; there are none"),
        ({"value": LONG}, "column value must be string or binary, not bigint"),
        ({"value": TEXT, "partition": LONG}, "column partition must be int, not bigint"),
        ({"value": TEXT, "value_": TEXT}, "2 columns are named value, as after a join: select the "
         "one to write"),
        ({"value": TEXT, "headers": headers(BYTES)}, "column headers must be "
         "array<struct<key:string,value:binary>>"),
        ({"value": TEXT, "headers": headers(names=("k", "v"))}, "column headers must be "
         "array<struct<key:string,value:binary>>"),
    ],
)  # fmt: skip
def test_a_column_that_cannot_be_written_is_named_with_what_it_must_be(fields, why):
    with pytest.raises(OptionError) as caught:
        check(**fields)

    assert str(caught.value) == why
    assert {*COLUMNS} == {"key", "value", "topic", "partition", "headers"}


def test_rows_need_a_topic_from_the_option_or_from_a_column():
    with pytest.raises(OptionError, match="no topic is given"):
        check(None, value=TEXT)
    check(None, value=TEXT, topic=TEXT)
