"""The option `jsonSchema`: its parser and the types that it supports. Light imports."""

import json

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from josefine_spark.base.errors import OptionError

COLUMN, REASON = "json", "json_reason"

_SCALARS = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)


def parse_schema(text: str) -> StructType:
    """Parse the option's value, `StructType.json()`; every column becomes nullable, as in
    `from_json`. Raises OptionError."""
    try:
        schema = StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(f"jsonSchema: expected StructType.json(), got {text!r}") from error
    other = unreadable(schema)
    if other is not None:
        raise OptionError(
            f"jsonSchema: {other} is not supported: expected STRING, BINARY, BOOLEAN, TINYINT, "
            "SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, DATE, TIMESTAMP, TIMESTAMP_NTZ, or a "
            "STRUCT, an ARRAY or a MAP with STRING keys of these"
        )
    return nullable(schema)


def nullable(kind: StructType) -> StructType:
    """The same columns, each of them and whatever is in them nullable."""
    return StructType([StructField(each.name, _nullable(each.dataType)) for each in kind.fields])


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return nullable(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind


def unreadable(
    schema: StructType, also: tuple[type[DataType], ...] = (), path: str = ""
) -> str | None:
    """The first column with an unsupported type, as `name TYPE`; None if there is none. `also`:
    types that are supported in addition to those of the option."""
    if not schema.fields:
        return f"{path}a struct without columns"
    for field in schema.fields:
        found = _unread(field.dataType, also, f"{path}{field.name}")
        if found is not None:
            return found
    return None


def _unread(kind: DataType, also: tuple[type[DataType], ...], path: str) -> str | None:
    inner = kind.elementType if isinstance(kind, ArrayType) else kind
    if isinstance(inner, StructType):
        return unreadable(inner, also, f"{path}.")
    return None if _is_read(kind, also) else f"{path} {kind.simpleString().upper()}"


def _is_read(kind: DataType, also: tuple[type[DataType], ...]) -> bool:
    if isinstance(kind, DecimalType):
        return kind.scale >= 0
    if isinstance(kind, ArrayType):
        return _is_read(kind.elementType, also)
    if isinstance(kind, MapType):
        return kind.keyType == StringType() and _is_read(kind.valueType, also)
    if isinstance(kind, StructType):
        return unreadable(kind, also) is None
    # A string type with a collation is not equal to the plain type.
    return isinstance(kind, (*_SCALARS, *also)) or kind == StringType()
