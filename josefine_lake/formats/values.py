"""The decoder of a table topic's values, chosen by its configs.

It is total: each value is a row or has its reason. The types are those of a pipeline with the same
format, so that both write one table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from josefine_arrow.formats.avro.column_decoder import ColumnDecoder
from josefine_arrow.formats.avro.decoder import Decoder as AvroDecoder
from josefine_arrow.formats.avro.decoder import arrow_of as avro_arrow
from josefine_arrow.formats.avro.schema import SchemaError as AvroSchemaError
from josefine_arrow.formats.avro.schema import Type as AvroType
from josefine_arrow.formats.avro.schema import columns_of, parse
from josefine_arrow.formats.confluent.schema_references import Schema
from josefine_arrow.formats.debezium.decoder import changes_of, json_envelopes, parts_of
from josefine_arrow.formats.debezium.envelope import row_of
from josefine_arrow.formats.json.decoder import JsonDecoder
from josefine_arrow.schema.ddl_types import DdlError, struct_of
from josefine_lake.config.table_topic import Format, TableTopic
from josefine_lake.formats import protobuf
from josefine_lake.formats.registry import Subject

Decode = Callable[[Any], tuple[Any, Any]]
"""A column of bytes to (a struct column, the reasons). Raises OSError for a registry."""


class Decoded(NamedTuple):
    """One entry per value, as of `debezium.decoder.Changes`. `deleted`, `ops` None: of a format
    without operations."""

    rows: Any
    reasons: Any
    deleted: Any = None
    ops: Any = None


class Values(Protocol):
    """The decoder of one topic. `type`: the columns of a row; `has_operations`: of changes."""

    type: pa.StructType
    has_operations: bool

    def decode(self, values: Any) -> Decoded:
        """Raises OSError if a registry does not answer, NewerSchemaError."""
        ...


class Plain:
    """Values that are rows."""

    has_operations = False

    def __init__(self, kind: pa.StructType, decode: Decode) -> None:
        self.type = kind
        self._decode = decode

    def decode(self, values: Any) -> Decoded:
        return Decoded(*self._decode(values))


class Envelopes:
    """Values that are Debezium's envelopes around rows."""

    has_operations = True

    def __init__(self, row: pa.StructType, decode: Decode) -> None:
        self.type = row
        self._decode = decode

    def decode(self, values: Any) -> Decoded:
        envelopes, reasons = self._decode(values)
        return Decoded(*changes_of(values, envelopes, reasons))


def values_of(table: TableTopic, env: Mapping[str, str]) -> Values | None:
    """The decoder of a topic's values; None: they stay bytes. `env`: the registry's user. Raises
    ValueError for a schema without columns, OSError for a file or registry without an answer."""
    match table.format:
        case Format.RAW:
            return None
        case Format.JSON:
            decoder = JsonDecoder(ddl_columns(table.schema))
            return Plain(decoder.type, decoder.decode)
        case Format.AVRO:
            return _avro(table, env)
        case Format.PROTOBUF:
            return Plain(*protobuf.decoder(table, env))
        case Format.DEBEZIUM:
            return _debezium(table, env)


def ddl_columns(ddl: str) -> pa.StructType:
    """The struct of a value. Raises ValueError."""
    try:
        kind = struct_of(ddl)
    except DdlError as error:
        raise ValueError(f"'josefine.table.schema': {error}") from error
    for field in kind:
        if _has(field.type, (pa.json_(), pa.null())):
            raise ValueError(
                f"'josefine.table.schema': the table writer does not write the type of {field.name}"
                " yet; use STRING"
            )
    return kind


def _avro(table: TableTopic, env: Mapping[str, str]) -> Plain:
    record, written = _avro_reader(table, env)
    return Plain(*_avro_column(record, written))


def _debezium(table: TableTopic, env: Mapping[str, str]) -> Envelopes:
    if table.schema and not _is_avro(table.schema):
        row = ddl_columns(table.schema)
        return Envelopes(JsonDecoder(row).type, json_envelopes(row))
    envelope, written = _avro_reader(table, env)
    try:
        row = avro_arrow(row_of(envelope))
    except AvroSchemaError as error:
        raise ValueError(f"the Avro schema: {error}") from error
    _, decode = _avro_column(envelope, written)

    def decode_parts(values: Any) -> tuple[Any, Any]:
        envelopes, reasons = decode(values)
        return parts_of(envelopes), reasons

    return Envelopes(row, decode_parts)


def _avro_column(record: AvroType, written: Any) -> tuple[pa.StructType, Decode]:
    kind, decoder = avro_arrow(record), AvroDecoder(record, written)
    return kind, ColumnDecoder(decoder, kind, is_framed=written is not None).decode


def _avro_reader(table: TableTopic, env: Mapping[str, str]) -> tuple[AvroType, Any]:
    """(the record that is read, the lookup of the writers' schemas or None)."""
    subject = Subject(table, env) if table.registry else None
    if table.schema.startswith("{"):
        schema = Schema(table.schema)
    elif table.schema:
        schema = Schema(Path(table.schema).read_text(encoding="utf-8"))
    elif subject is None:
        raise ValueError("no 'josefine.table.schema' and no 'josefine.table.schema.registry'")
    else:
        schema = subject.newest()
    try:
        record = parse(schema.text, schema.referenced)
        if record.kind != "record":
            raise AvroSchemaError(f"expected a record, found {record.kind}")
        columns_of(record)
    except AvroSchemaError as error:
        raise ValueError(f"the Avro schema of the values: {error}") from error
    return record, None if subject is None else subject.schema


def _is_avro(schema: str) -> bool:
    return schema.startswith("{") or schema.endswith(".avsc")


def _has(kind: pa.DataType, wanted: tuple[pa.DataType, ...]) -> bool:
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return kind in wanted or any(_has(each, wanted) for each in inside)
