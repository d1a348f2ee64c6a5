"""Arrow types by their names in Spark's SQL, for messages."""

from __future__ import annotations

import pyarrow as pa

_NAMES = {
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.null(): "VOID",
    pa.json_(): "VARIANT",
}


def sql_name(kind: pa.DataType) -> str:
    """`DECIMAL(6,2)`, `ARRAY<INT>`, `STRUCT<a: INT>`. Raises KeyError for a type without a name."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<{sql_name(kind.key_type)}, {sql_name(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        inside = ", ".join(f"{each.name}: {sql_name(each.type)}" for each in kind)
        return f"STRUCT<{inside}>"
    return _NAMES[kind]
