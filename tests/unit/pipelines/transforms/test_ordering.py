"""Rows that nothing else tells apart are compared by every column, as Spark can compare it."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from pipelines.transforms.ordering import ranked

MAP = MapType(StringType(), IntegerType())
SCHEMA = StructType(
    [
        StructField("Id", IntegerType()),
        StructField("list", ArrayType(IntegerType())),
        StructField("map", MAP),
        StructField("deep", StructType([StructField("m", ArrayType(MAP))])),
        StructField("any", VariantType()),
    ]
)


def test_what_spark_does_not_order_is_compared_as_json():
    assert [*ranked(SCHEMA, but=())] == [
        "`Id`",
        "`list`",
        "to_json(`map`)",
        "to_json(`deep`)",
        "to_json(`any`)",
    ]


def test_columns_are_left_out_whatever_their_letters_case():
    assert [*ranked(SCHEMA, but={"id", "map", "deep", "any"}, side="t.")] == ["t.`list`"]
