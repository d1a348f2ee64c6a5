"""Arrow types read from a DDL text are those of Spark's own parser."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from josefine_arrow.schema.ddl_types import struct_of
from josefine_spark.read.json_rows import arrow_type

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCALARS = st.sampled_from(
    ["STRING", "binary", "BOOLEAN", "TINYINT", "byte", "SMALLINT", "SHORT", "INT", "INTEGER",
     "BIGINT", "LONG", "FLOAT", "REAL", "DOUBLE", "DECIMAL", "DEC(5)", "numeric(38, 10)", "DATE",
     "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "VARIANT", "VOID"]
)  # fmt: skip
NAMES = st.sampled_from(["a", "b_1", "`a b`", "`x``y`", "_c", "`d.e`", "`ÿ`"])
OPTIONS = st.sampled_from(["", " NOT NULL", " COMMENT 'a, <b> ''c'''"])


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    field = st.tuples(NAMES, inner, OPTIONS)
    fields = st.lists(field, min_size=1, max_size=3, unique_by=lambda each: each[0])
    struct = fields.map(lambda found: ", ".join(f"{n}: {t}{o}" for n, t, o in found))
    return (
        inner.map("ARRAY<{}>".format)
        | inner.map("MAP<STRING, {}>".format)
        | struct.map("STRUCT<{}>".format)
    )


TYPES = st.recursive(SCALARS, nested, max_leaves=4)
COLUMN = st.tuples(NAMES, TYPES, OPTIONS)
COLUMNS = st.lists(COLUMN, min_size=1, max_size=4, unique_by=lambda each: each[0])


@settings(deadline=None, max_examples=60)
@given(columns=COLUMNS)
def test_a_schema_is_what_spark_reads(spark: SparkSession, columns: list[tuple[str, ...]]) -> None:
    ddl = ", ".join(f"{name} {kind}{options}" for name, kind, options in columns)

    schema: Any = StructType.fromDDL(ddl)

    assert struct_of(ddl) == arrow_type(schema), ddl
