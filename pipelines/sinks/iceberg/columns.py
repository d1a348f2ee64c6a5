"""Column types of an Iceberg sink: Spark's to Iceberg's and back. Pure.

Types come as Spark's JSON of a schema, so that nothing here needs Spark. A type that Iceberg has
no exact counterpart of is refused: no value changes on its way into the table.
(Iceberg's spec: Schemas and Data Types.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

SIMPLE: Mapping[str, str] = {
    "boolean": "boolean",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
"""Spark's name of a type in JSON → Iceberg's."""

_ADVICE: Mapping[str, str] = {
    "byte": "TINYINT has no counterpart: cast it to INT",
    "short": "SMALLINT has no counterpart: cast it to INT",
    "void": "a column that is always null has no type: cast it",
}
_SQL: Mapping[str, str] = {"integer": "int", "long": "bigint"}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def unsupported(schema: Mapping[str, Any]) -> list[str]:
    """One text for each column of a schema (Spark's JSON) that Iceberg cannot store, with why."""
    found = ((field["name"], _why_not(field["type"])) for field in schema["fields"])
    return [f"column `{name}`: {why}" for name, why in found if why]


def _why_not(kind: Any) -> str:
    if isinstance(kind, str):
        if kind in SIMPLE or _DECIMAL.fullmatch(kind):
            return ""
        return _ADVICE.get(kind, f"{kind.upper()} has no counterpart: cast it to STRING or BINARY")
    return next(filter(None, map(_why_not, _parts(kind))), "")


def _parts(kind: Mapping[str, Any]) -> Iterator[Any]:
    """The types that a nested type is made of."""
    match kind["type"]:
        case "struct":
            yield from (field["type"] for field in kind["fields"])
        case "array":
            yield kind["elementType"]
        case "map":
            yield from (kind["keyType"], kind["valueType"])
        case other:
            yield str(other)


def schema_of(schema: Mapping[str, Any]) -> Schema:
    """The schema of a new table. Every field may be null, as in Spark's files."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    ids = count(1)
    return Schema(
        *(
            NestedField(
                field_id=next(ids), name=f["name"], field_type=_type(f["type"], ids), required=False
            )
            for f in schema["fields"]
        )
    )


def types_of(schema: Mapping[str, Any]) -> dict[str, IcebergType]:
    """Column → its type in the table."""
    return {field.name: field.field_type for field in schema_of(schema).fields}


def _type(kind: Any, ids: Iterator[int]) -> IcebergType:
    from pyiceberg import types as ice

    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        if decimal:
            return ice.DecimalType(int(decimal[1]), int(decimal[2]))
        made: IcebergType = _SIMPLE_CLASSES()[SIMPLE[kind]]
        return made
    if kind["type"] == "array":
        # Iceberg numbers a field before the fields inside it, so the order of next() matters.
        element = next(ids)
        of = _type(kind["elementType"], ids)
        return ice.ListType(element_id=element, element_type=of, element_required=False)
    if kind["type"] == "map":
        key, value = next(ids), next(ids)
        return ice.MapType(
            key_id=key,
            key_type=_type(kind["keyType"], ids),
            value_id=value,
            value_type=_type(kind["valueType"], ids),
            value_required=False,
        )
    assert kind["type"] == "struct", kind
    return ice.StructType(
        *(
            ice.NestedField(
                field_id=next(ids), name=f["name"], field_type=_type(f["type"], ids), required=False
            )
            for f in kind["fields"]
        )
    )


def _SIMPLE_CLASSES() -> dict[str, IcebergType]:  # noqa: N802
    from pyiceberg import types as ice

    every = (
        ice.BooleanType, ice.IntegerType, ice.LongType, ice.FloatType, ice.DoubleType,
        ice.StringType, ice.BinaryType, ice.DateType, ice.TimestamptzType, ice.TimestampType,
    )  # fmt: skip
    return {str(made): made for made in (each() for each in every)}


def spark_columns(schema: Schema) -> dict[str, str]:
    """Column → its type in Spark's SQL, of an existing table. A type that no sink writes keeps
    Iceberg's name, which matches no type of Spark."""
    return {field.name: _sql(field.field_type) for field in schema.fields}


def _sql(kind: IcebergType) -> str:
    from pyiceberg import types as ice

    if isinstance(kind, ice.ListType):
        return f"array<{_sql(kind.element_type)}>"
    if isinstance(kind, ice.MapType):
        return f"map<{_sql(kind.key_type)},{_sql(kind.value_type)}>"
    if isinstance(kind, ice.StructType):
        return f"struct<{','.join(f'{f.name}:{_sql(f.field_type)}' for f in kind.fields)}>"
    if isinstance(kind, ice.DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    back = {iceberg: _SQL.get(spark, spark) for spark, iceberg in SIMPLE.items()}
    return back.get(str(kind), f"iceberg {kind}")


def required_columns(schema: Schema) -> list[str]:
    """The columns that may not be null: no sink can guarantee that."""
    return [field.name for field in schema.fields if field.required]
