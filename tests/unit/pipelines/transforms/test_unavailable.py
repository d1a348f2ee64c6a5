"""SQL of kept values, word for word; what it does is in tests/spark/pipelines."""

from __future__ import annotations

import pytest

from pipelines.transforms.unavailable import conditions, kept_from_table, text_of

types = pytest.importorskip("pyspark.sql.types")


def test_only_columns_whose_type_can_have_a_placeholder_are_looked_at():
    kinds = {
        "k": "string", "AT": "string", "n": "bigint", "at_day": "date", "s": "struct<a:string>",
        "m": "map<string,int>", "d": "array<decimal(2,2)>", "t": "array<struct<a:string>>",
        "x": "string", "b": "binary", "l": "array<int>", "h": "map<string,string>",
    }  # fmt: skip
    schema = types.StructType()
    for name, kind in kinds.items():
        schema.add(name, parsed(kind))

    assert [name for name, _ in conditions(schema, "p", ["k", "at"])] == ["x", "b", "l", "h"]


def parsed(kind):
    plain = {
        "string": types.StringType(), "bigint": types.LongType(), "date": types.DateType(),
        "binary": types.BinaryType(), "int": types.IntegerType(),
        "decimal(2,2)": types.DecimalType(2, 2),
    }  # fmt: skip
    if kind in plain:
        return plain[kind]
    outer, inner = kind[:-1].split("<", 1)
    if outer == "array":
        return types.ArrayType(parsed(inner))
    if outer == "map":
        return types.MapType(*map(parsed, inner.split(",")))
    return types.StructType([types.StructField("a", types.StringType())])


def test_a_placeholder_with_quotes_is_one_literal():
    assert text_of("it's \\ 1") == r"'it\'s \\ 1'"


def test_the_later_of_the_batchs_and_the_tables_values_is_kept():
    assert kept_from_table("bio", "struct(t.`at` AS c0)") == (
        "CASE WHEN s.`_josefine_kept`.`bio` IS NOT NULL AND (s.`_josefine_kept`.`bio`.o IS NULL "
        "OR s.`_josefine_kept`.`bio`.o < struct(t.`at` AS c0)) THEN t.`bio` ELSE s.`bio` END"
    )
