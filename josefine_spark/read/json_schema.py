"""The option `jsonSchema`: its parser and the types that it supports. Light imports."""

import json

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from josefine_spark.base.errors import OptionError

COLUMN = "json"

DECIMAL_DIGITS_MAX = 18
"""Digits of a decimal that fits 64 bits."""

INTEGER_BITS: dict[type[DataType], int] = {
    ByteType: 8,
    ShortType: 16,
    IntegerType: 32,
    LongType: 64,
}
_OTHERS = (BooleanType, DateType, DoubleType, TimestampType)


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
            f"jsonSchema: {other} is not supported: expected STRING, BOOLEAN, TINYINT, SMALLINT, "
            f"INT, BIGINT, DOUBLE, DECIMAL of {DECIMAL_DIGITS_MAX} digits, DATE, TIMESTAMP or a "
            "STRUCT of these"
        )
    return _nullable(schema)


def _nullable(schema: StructType) -> StructType:
    fields = []
    for field in schema.fields:
        kind = field.dataType
        inner = _nullable(kind) if isinstance(kind, StructType) else kind
        fields.append(StructField(field.name, inner, nullable=True))
    return StructType(fields)


def unreadable(schema: StructType) -> str | None:
    """The first column with an unsupported type, as `name TYPE`; None if there is none."""
    if not schema.fields:
        return "a struct without columns"
    for field in schema.fields:
        kind = field.dataType
        if isinstance(kind, StructType):
            inner = unreadable(kind)
            if inner is not None:
                return f"{field.name}.{inner}"
        elif not _is_read(kind):
            return f"{field.name} {kind.simpleString().upper()}"
    return None


def _is_read(kind: DataType) -> bool:
    if isinstance(kind, DecimalType):
        return kind.scale >= 0 and kind.precision <= DECIMAL_DIGITS_MAX
    # A string type with a collation or a length limit is not equal to the plain type.
    return type(kind) in INTEGER_BITS or type(kind) in _OTHERS or kind == StringType()
