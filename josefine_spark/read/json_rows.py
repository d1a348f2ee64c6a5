"""The values of a record batch that are JSON objects, as the struct column of `jsonSchema`.

A row is taken only when it is certain what Spark's `from_json` makes of the value, read strictly
(no single quotes, no NaN): the column is null wherever it is not, and there Spark is to be asked.
So `coalesce(json, from_json(value, …))` is what `from_json(value, …)` is.
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
    """The column's, as PySpark's own conversion has it (a test holds it)."""
    if isinstance(kind, StructType):
        return pa.struct([pa.field(each.name, arrow_type(each.dataType)) for each in kind.fields])
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, StringType):
        return pa.string()
    bits = INTEGER_BITS.get(type(kind))
    return _INTEGERS[bits] if bits is not None else _OTHERS[type(kind)]


class JsonRows(JsonDecoder):
    """The decoder of the struct type that `jsonSchema` names, whose types are all readable."""

    def __init__(self, schema: StructType) -> None:
        super().__init__(arrow_type(schema))

    def beside(self, batch: Any) -> Iterator[Any]:
        """The record batch with the objects as the last column, in as many pieces as it takes."""
        return self.appended(batch, COLUMN)
