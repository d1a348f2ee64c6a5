"""A DDL text as Arrow types; that Spark reads the same is in tests/spark/pipelines/contracts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from josefine_arrow.schema.ddl_types import DdlError, struct_of
from josefine_arrow.schema.names import sql_name


def test_columns_are_read_at_every_depth() -> None:
    kind = struct_of(
        "id BIGINT NOT NULL COMMENT 'a, b', `a b``c`: DECIMAL(10, 2), "
        "lines array<struct<sku: string not null, n int>>, by MAP<STRING, ARRAY<DOUBLE>>, v VARIANT"
    )

    assert kind == pa.struct(
        [
            ("id", pa.int64()),
            ("a b`c", pa.decimal128(10, 2)),
            ("lines", pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int32())]))),
            ("by", pa.map_(pa.string(), pa.list_(pa.float64()))),
            ("v", pa.json_()),
        ]
    )


@pytest.mark.parametrize(
    "name",
    ["STRING", "BINARY", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE",
     "DECIMAL(38,38)", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "VARIANT", "VOID", "ARRAY<INT>",
     "MAP<STRING, STRUCT<a: INT>>", "STRUCT<>"],
)  # fmt: skip
def test_a_type_has_its_name(name: str) -> None:
    assert sql_name(struct_of(f"x {name}").field("x").type) == name


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("", "expected a column's name at the end"),
        ("id", "expected a type at the end"),
        ("id INTT", "type INTT is not read"),
        ("id INTERVAL", "type INTERVAL is not read"),
        ("id INT,", "expected a column's name at the end"),
        ("id INT, ID INT", "column id is there twice"),
        ("id ARRAY<INT", "expected `>` at the end"),
        ("id ARRAY INT", "expected `<`, found `INT`"),
        ("id MAP<STRING>", "expected `,`, found `>`"),
        ("id DECIMAL(39, 2)", "no DECIMAL(39,2): at most 38 digits"),
        ("id DECIMAL(x)", "expected a number, found `x`"),
        ("id INT> x", "unexpected `>`"),
        ("'id' INT", "expected a column's name, found `'id'`"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_its_reason(ddl: str, told: str) -> None:
    with pytest.raises(DdlError) as caught:
        struct_of(ddl)
    assert str(caught.value) == told
