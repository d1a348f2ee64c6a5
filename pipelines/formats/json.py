"""The JSON format: objects to a struct, with the reason for each bad text.

`josefine_arrow.formats.json` decides what a text is: here it is bound to Spark's types and columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from josefine_arrow.formats.json.options import JsonOptions
from pipelines.formats.python_values import ArrowValues, DecodeColumn, FewOrMany, one_by_one

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType


class StructValues(ArrowValues):
    """A format of texts with the columns of a schema, whose types are those of
    `json_rows.arrow_type`."""

    def __init__(self, schema: StructType, options: JsonOptions | None = None) -> None:
        """`options`: by default with the session's time zone."""
        self._schema = schema
        self._options = options

    @abstractmethod
    def decoder_for(self, kind: pa.StructType, options: JsonOptions) -> Callable[[], DecodeColumn]:
        """The function that makes a worker's decoder of these columns; it is pickled."""

    def spark_type(self) -> DataType:
        return _stored_type(self._schema)

    def columns_decoder(self) -> Callable[[], DecodeColumn]:
        from josefine_spark.read.json_rows import arrow_type

        options = self._options or JsonOptions(time_zone=time_zone())
        return self.decoder_for(arrow_type(self._schema), options)


class JsonValues(StructValues):
    """`format: json`."""

    def decoder_for(self, kind: pa.StructType, options: JsonOptions) -> Callable[[], DecodeColumn]:
        return partial(_decoder, kind, options)

    def result(self, parsed: Column) -> Column:
        return _as_variants(super().result(parsed), self._schema)


@lru_cache(maxsize=16)
def _decoder(kind: pa.StructType, options: JsonOptions) -> FewOrMany:
    """The decoder of this process: Spark reuses a Python worker for many batches."""
    from josefine_arrow.formats.json.decoder import JsonDecoder, storage_type
    from josefine_arrow.formats.json.value_reader import ObjectReader

    few = one_by_one(ObjectReader(kind, options).read, storage_type(kind))
    return FewOrMany(few, lambda: JsonDecoder(kind, options).decode)


def time_zone() -> str:
    """The time zone of the calling thread's session, which a TIMESTAMP without one is in."""
    from pyspark.sql import SparkSession

    from josefine_spark.sessions.registration import active_session

    # A thread that Spark did not start has no active session.
    session = active_session() or SparkSession._instantiatedSession
    zone: Any = session.conf.get("spark.sql.session.timeZone") if session else None
    return str(zone or "UTC")


def _stored_type(kind: DataType) -> Any:
    """The type in which decoded values come: a VARIANT as its JSON text, everything nullable."""
    from pyspark.sql.types import (
        ArrayType,
        MapType,
        StringType,
        StructField,
        StructType,
        VariantType,
    )

    if isinstance(kind, StructType):
        return StructType(
            [StructField(each.name, _stored_type(each.dataType)) for each in kind.fields]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_stored_type(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _stored_type(kind.valueType))
    return StringType() if isinstance(kind, VariantType) else kind


def _as_variants(value: Column, kind: DataType) -> Column:
    """A decoded value with VARIANTs in place of their JSON texts; the same column without any."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if not _has_variant(kind):
        return value
    if isinstance(kind, VariantType):
        return F.parse_json(value)
    if isinstance(kind, ArrayType):
        inner = kind.elementType
        return F.transform(value, lambda each: _as_variants(each, inner))
    if isinstance(kind, MapType):
        below = kind.valueType
        return F.transform_values(value, lambda _, each: _as_variants(each, below))
    assert isinstance(kind, StructType)
    fields = (
        _as_variants(value.getField(each.name), each.dataType).alias(each.name)
        for each in kind.fields
    )
    return F.when(value.isNotNull(), F.struct(*fields))


def _has_variant(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if isinstance(kind, ArrayType):
        return _has_variant(kind.elementType)
    if isinstance(kind, MapType):
        return _has_variant(kind.valueType)
    if isinstance(kind, StructType):
        return any(_has_variant(each.dataType) for each in kind.fields)
    return isinstance(kind, VariantType)
