"""The struct column of `jsonSchema`: the values of a record batch that are JSON objects.

A value is decoded only when the result of Spark's `from_json` is certain, read strictly (no single
quotes, no NaN). Elsewhere the column is null, and Spark decodes the value. So
`coalesce(json, from_json(value, …))` equals `from_json(value, …)`.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    StringType,
    StructType,
    TimestampType,
)

from josefine_arrow.formats.json.decoder import JsonDecoder
from josefine_spark.read.json_schema import COLUMN, INTEGER_BITS

_OTHERS: dict[type[DataType], Any] = {
    DoubleType: pa.float64(),
    BooleanType: pa.bool_(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    DateType: pa.date32(),
}
_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def arrow_type(kind: DataType) -> Any:
    """The Arrow type of a Spark type, equal to PySpark's own conversion (proved by a test)."""
    if isinstance(kind, StructType):
        return pa.struct([pa.field(each.name, arrow_type(each.dataType)) for each in kind.fields])
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, StringType):
        return pa.string()
    bits = INTEGER_BITS.get(type(kind))
    return _INTEGERS[bits] if bits is not None else _OTHERS[type(kind)]


class JsonRows(JsonDecoder):
    """A decoder for the struct type of `jsonSchema`, all of whose types are supported."""

    def __init__(self, schema: StructType) -> None:
        super().__init__(arrow_type(schema))

    def beside(self, batch: Any) -> Iterator[Any]:
        """The record batch with the objects as the last column, in one or more pieces."""
        return self.appended(batch, COLUMN)
