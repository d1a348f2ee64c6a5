"""Decoder of Avro: the bytes of one record to a value, or the reason why they are bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from josefine_arrow.formats.avro.primitives import AvroError
from josefine_arrow.formats.avro.reader import OtherTypeError, reader_of
from josefine_arrow.formats.avro.schema import (
    SchemaError,
    Type,
    one_branch,
    parse,
    parse_record,
    sql_of,
)
from josefine_arrow.formats.confluent.framing import OFFLINE, OWN, FramingError, split
from josefine_arrow.formats.confluent.schema_references import NoSchemaError, Schema
from josefine_arrow.formats.confluent.schema_registry_http import registry_at

if TYPE_CHECKING:
    import pyarrow as pa

    from josefine_arrow.formats.avro.column_reader import ReadColumn


SchemaBy = Callable[[int], Schema]
"""Lookup of a writer schema by its id. Raises NoSchemaError, RegistryError."""


class Decoder:
    """The decoder of one reader schema: bytes to (value, reason). `schema`: its text, or the parsed
    record. `written`: lookup of the writer schemas; None: the records are not framed and were
    written with `schema`.

    `record_type`: the full name of the record that is read; records of other types are bad, or left
    out with `skips`. "": that of the schema itself, and names are not compared.
    If a writer schema does not match the reader schema, each of its records gets that reason.
    """

    def __init__(
        self,
        schema: str | Type,
        written: SchemaBy | None = None,
        *,
        record_type: str = "",
        skips: bool = False,
    ) -> None:
        self._reader = schema if isinstance(schema, Type) else parse_record(schema, record_type)
        self._written, self._by_name, self._skips = written, bool(record_type), skips
        # With `record_type` the records may be of any type that the whole schema declares.
        whole = schema if isinstance(schema, Type) else parse(schema)
        self._plain = None if written else self._reader_of(whole)
        self._made: dict[int, Callable[[bytes], Any] | str] = {}
        self._columns: dict[int | None, ReadColumn | None] = {}

    def __call__(self, data: bytes | None) -> tuple[Any, str | None]:
        """Raises RegistryError."""
        if data is None:
            return None, None
        try:
            if self._plain is not None:
                return self._plain(data), None
            number, data = split(data)
            read = self._read_by(number)
            return (None, read) if isinstance(read, str) else (read(data), None)
        except OtherTypeError as error:
            return None, None if self._skips else str(error)
        except (AvroError, FramingError, NoSchemaError) as error:
            return None, str(error)

    def columns_by(self, number: int | None) -> ReadColumn | None:
        """The reader of whole columns of records with this schema; None: one by one. `number` None:
        records without a frame. Raises RegistryError."""
        if number not in self._columns:
            self._columns[number] = self._columns_by(number)
        return self._columns[number]

    def _columns_by(self, number: int | None) -> ReadColumn | None:
        if self._by_name or self._skips or (number is None) != (self._written is None):
            return None
        # Here, because numpy is not installed wherever a schema is only read.
        from josefine_arrow.formats.avro.column_reader import columns_reader

        try:
            writer = self._reader
            if number is not None and self._written is not None:
                schema = self._written(number)
                writer = parse(schema.text, schema.referenced)
            return columns_reader(writer, self._reader, arrow_of)
        except (NoSchemaError, SchemaError, AvroError):
            return None  # each record has its reason, one by one

    def _reader_of(self, writer: Type) -> Callable[[bytes], Any]:
        return reader_of(writer, self._reader, by_name=self._by_name)

    def _read_by(self, number: int) -> Callable[[bytes], Any] | str:
        if number not in self._made:
            assert self._written is not None
            schema = self._written(number)
            try:
                writer = parse(schema.text, schema.referenced)
                self._made[number] = self._reader_of(writer)
            except (SchemaError, AvroError) as error:
                self._made[number] = f"schema {number}: {error}"
        return self._made[number]


_decoders: dict[tuple[str, str | None, str, bool], Decoder] = {}
"""One cache per process: Spark reuses a Python worker for many batches."""


def decoder_of(
    schema: str, registry: str | None, record_type: str = "", *, skips: bool = False
) -> Decoder:
    """The cached decoder of this process. `registry`: its address, OWN or None."""
    key = (schema, registry, record_type, skips)
    if key not in _decoders:
        written: SchemaBy | None = None
        if registry == OWN:
            written = _own(schema)
        elif registry is not None:
            written = registry_at(registry).schema
        _decoders[key] = Decoder(schema, written, record_type=record_type, skips=skips)
    return _decoders[key]


def _own(schema: str) -> SchemaBy:
    def written(number: int) -> Schema:
        if number != OFFLINE:
            raise NoSchemaError(f"schema {number}: records of the file itself have {OFFLINE}")
        return Schema(schema)

    return written


def arrow_of(kind: Type) -> pa.DataType:
    """The Arrow type of the values of `reader_of`, equal to Spark's type of `columns_of`."""
    import pyarrow as pa

    if kind.kind == "union":
        return arrow_of(one_branch(kind, ""))
    if kind.logical == "decimal":
        return pa.decimal128(kind.digits, kind.scale)
    if kind.kind == "record":
        return pa.struct([(each.name, arrow_of(each.type)) for each in kind.fields])
    if kind.items is not None:
        inside = arrow_of(kind.items)
        return pa.list_(inside) if kind.kind == "array" else pa.map_(pa.string(), inside)
    plain = {
        "BOOLEAN": pa.bool_(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "BINARY": pa.binary(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
        "TIMESTAMP_NTZ": pa.timestamp("us"),
    }
    return plain[sql_of(kind)]
