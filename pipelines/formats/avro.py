"""The Avro format: its decoder (`josefine_arrow.formats.avro`) bound to Spark's columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from josefine_arrow.formats.avro.decoder import Decoder, arrow_of, decoder_of
from josefine_arrow.formats.avro.schema import parse_record, sql_of
from pipelines.formats.python_values import DecodeColumn, PythonValues

if TYPE_CHECKING:
    import pyarrow as pa


class AvroValues(PythonValues):
    """`format: avro`. Arguments: as of `decoder_of`."""

    def __init__(
        self, schema: str, registry: str | None, record_type: str = "", *, skips: bool = False
    ) -> None:
        self._schema = schema
        self._registry = registry
        self._record_type, self._skips = record_type, skips

    def sql(self) -> str:
        return sql_of(parse_record(self._schema, self._record_type))

    def arrow(self) -> pa.DataType:
        return arrow_of(parse_record(self._schema, self._record_type))

    def decoder(self) -> Callable[[], Decoder]:
        of = (self._schema, self._registry, self._record_type)
        return partial(decoder_of, *of, skips=self._skips)

    def columns_decoder(self) -> Callable[[], DecodeColumn]:
        """Reads plain records a column at a time."""
        return partial(_columns_of, self.decoder(), self.arrow(), self._registry is not None)


def _columns_of(decoder: Callable[[], Decoder], kind: pa.DataType, is_framed: bool) -> DecodeColumn:
    from josefine_arrow.formats.avro.column_decoder import ColumnDecoder

    return ColumnDecoder(decoder(), kind, is_framed=is_framed).decode
