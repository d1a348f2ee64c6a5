"""The columns of `jsonSchema`: the values of a record batch as objects, and why one is none."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
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
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from josefine_arrow.formats.json.decoder import JsonDecoder
from josefine_arrow.formats.json.options import JsonOptions
from josefine_spark.read.json_schema import COLUMN, REASON

_SCALARS: dict[type[DataType], Any] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
    VariantType: pa.json_(),
    NullType: pa.null(),
}


def arrow_type(kind: DataType) -> Any:
    """The Arrow type of a Spark type, equal to PySpark's own conversion (proved by a test), but
    `arrow.json` for VARIANT. Raises KeyError for a type that JSON is not decoded into."""
    if isinstance(kind, StructType):
        return pa.struct([pa.field(each.name, arrow_type(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(arrow_type(kind.elementType))
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise KeyError(kind.keyType)
        return pa.map_(pa.string(), arrow_type(kind.valueType))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return pa.string() if isinstance(kind, StringType) else _SCALARS[type(kind)]


class JsonRows(JsonDecoder):
    """A decoder for the struct type of `jsonSchema`, all of whose types are supported."""

    def __init__(self, schema: StructType, options: JsonOptions | None = None) -> None:
        super().__init__(arrow_type(schema), options)

    def beside(self, batch: Any) -> Iterator[Any]:
        """The record batch with the objects and the reasons as the last columns, in one or more
        pieces."""
        return self.appended(batch, COLUMN, REASON)
