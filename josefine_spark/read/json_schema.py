"""The column of objects that `jsonSchema` adds: which types it may have. Light imports."""

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
"""Of a decimal that 64 bits hold."""

INTEGER_BITS: dict[type[DataType], int] = {
    ByteType: 8,
    ShortType: 16,
    IntegerType: 32,
    LongType: 64,
}
_OTHERS = (BooleanType, DateType, DoubleType, TimestampType)


def parse_schema(text: str) -> StructType:
    """The option's value, `StructType.json()`, each column nullable, as `from_json` has it. Raises
    OptionError."""
    try:
        schema = StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(f"jsonSchema: expected StructType.json(), got {text!r}") from error
    other = unreadable(schema)
    if other is not None:
        raise OptionError(
            f"jsonSchema: {other} is not read here: expected STRING, BOOLEAN, TINYINT, SMALLINT, "
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
    """The first column whose type is not read here, as `name TYPE`; None where all are."""
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
    # Text with a collation or a limited length is not equal to the plain one.
    return type(kind) in INTEGER_BITS or type(kind) in _OTHERS or kind == StringType()
