"""The Avro format: records to a struct, with the reason for each bad value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_arrow.formats.avro.primitives import AvroError
from josefine_arrow.formats.avro.reader import reader_of
from josefine_arrow.formats.avro.schema import (
    SchemaError,
    Type,
    one_branch,
    parse,
    parse_record,
    sql_of,
)
from josefine_arrow.formats.confluent.framing import OFFLINE, FramingError, split
from josefine_arrow.formats.confluent.schema_registry import NoSchemaError
from josefine_arrow.formats.confluent.schema_registry_http import registry_at
from pipelines.formats.python_values import OWN, Decode, PythonValues, TextBy

if TYPE_CHECKING:
    import pyarrow as pa


class Decoder:
    """The decoder of one reader schema: bytes to (value, reason). `text_by`: lookup of the writer
    schemas; None: the records are not framed and were written with the reader schema.

    If a writer schema does not match the reader schema, each of its records gets that reason.
    """

    def __init__(self, schema: str, text_by: TextBy | None = None) -> None:
        self._reader = parse_record(schema)
        self._text_by = text_by
        self._plain = None if text_by else reader_of(self._reader, self._reader)
        self._made: dict[int, Callable[[bytes], Any] | str] = {}

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
        except (AvroError, FramingError, NoSchemaError) as error:
            return None, str(error)

    def _read_by(self, number: int) -> Callable[[bytes], Any] | str:
        if number not in self._made:
            assert self._text_by is not None
            text = self._text_by(number)
            try:
                self._made[number] = reader_of(parse(text), self._reader)
            except (SchemaError, AvroError) as error:
                self._made[number] = f"schema {number}: {error}"
        return self._made[number]


_decoders: dict[tuple[str, str | None], Decoder] = {}
"""One cache per process: Spark reuses a Python worker for many batches."""


def decoder_of(schema: str, registry: str | None) -> Decoder:
    """The cached decoder of this process. `registry`: its address, OWN or None."""
    if (schema, registry) not in _decoders:
        text_by: TextBy | None = None
        if registry == OWN:
            text_by = _own(schema)
        elif registry is not None:
            text_by = registry_at(registry).text
        _decoders[schema, registry] = Decoder(schema, text_by)
    return _decoders[schema, registry]


def _own(schema: str) -> TextBy:
    def text_by(number: int) -> str:
        if number != OFFLINE:
            raise NoSchemaError(f"schema {number}: records of the file itself have {OFFLINE}")
        return schema

    return text_by


def arrow_of(kind: Type) -> pa.DataType:
    """The Arrow type of the values of `reader_of`, equal to Spark's type of `columns_of`."""
    import pyarrow as pa

    if kind.kind == "union":
        return arrow_of(one_branch(kind, ""))
    if kind.logical == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
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


class AvroValues(PythonValues):
    """`format: avro`. `registry`: as of `decoder_of`."""

    def __init__(self, schema: str, registry: str | None) -> None:
        self._schema = schema
        self._registry = registry

    def sql(self) -> str:
        return sql_of(parse_record(self._schema))

    def arrow(self) -> pa.DataType:
        return arrow_of(parse_record(self._schema))

    def decoder(self) -> Callable[[], Decode]:
        return partial(decoder_of, self._schema, self._registry)
