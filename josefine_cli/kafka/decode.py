"""`josefine consume --decode`: values as JSON by the decoders of the pipelines, without a JVM."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from josefine_arrow.formats.json.options import JsonOptions
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record
from josefine_cli.base.errors import EXIT_FAILURE, UsageError, UserError
from josefine_cli.base.extras import need
from josefine_cli.base.output import note, plural
from josefine_cli.kafka.consume_records import Decoded

if TYPE_CHECKING:
    import pyarrow as pa

    from josefine_arrow.formats.confluent.schema_registry import Registry
    from pipelines.model.pipeline import Decode

FORMATS = ("json", "csv", "avro", "protobuf")

DecodeHow = Annotated[
    str | None,
    typer.Option(
        "--decode",
        help="Print values as JSON, decoded from avro, protobuf, csv or json, or as a pipeline"
        " FILE.yaml decodes this topic. Values that do not fit are reported on stderr.",
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        help="Of --decode: a file (.avsc, .ddl, or descriptors of protoc), or columns as in SQL.",
    ),
]
Message = Annotated[
    str | None, typer.Option("--message", help="Of --decode protobuf: its full name.")
]
RegistryAddress = Annotated[
    str | None,
    typer.Option(
        "--registry",
        help="Of --decode: a schema registry's address. avro and protobuf need no --schema then.",
    ),
]

Read = Callable[[bytes], tuple[str | None, str | None]]
"""Bytes to (JSON text, reason)."""


@contextlib.contextmanager
def decoding(
    how: str | None, topic: str, schema: str | None, message: str | None, registry: str | None
) -> Iterator[Decoded | None]:
    """The decoder that the options name; None without `--decode`.

    Raises UsageError for options that do not fit, UserError for a schema that is none. At the end:
    typer.Exit if values did not fit.
    """
    if how is None:
        given = {"--schema": schema, "--message": message, "--registry": registry}
        extra = next((name for name, value in given.items() if value is not None), None)
        if extra is not None:
            raise UsageError(f"{extra} is of --decode: name the format there")
        yield None
        return
    need("consume --decode", "pyarrow")
    asked = _of_file(how, topic) if how.endswith((".yaml", ".yml")) else None
    if asked is None:
        read = _of_options(how, schema, message, registry)
    elif schema or message or registry:
        raise UsageError(f"{how} has the schema: leave --schema, --message and --registry out")
    else:
        read = section_reader(*asked)
    decoder = _Decoder(read)
    yield decoder
    if decoder.bad:
        note(f"{plural(decoder.bad, 'value')} did not fit")
        raise typer.Exit(EXIT_FAILURE)


class _Decoder:
    """Decodes values one by one. Mutable: it counts those that do not fit."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.bad = 0

    def __call__(self, tp: TopicPartition, record: Record) -> str | None:
        from josefine_arrow.formats.confluent.schema_registry import RegistryError

        assert record.value is not None
        try:
            text, why = self._read(bytes(record.value))
        except RegistryError as error:
            raise UserError(str(error)) from error
        if why is not None:
            self.bad += 1
            note(f"{tp} offset {record.offset}: {why}")
        return text


def _as_json(read: Callable[[bytes], tuple[Any, str | None]], kind: pa.DataType) -> Read:
    """The values of a decoder as JSON text. `kind`: their Arrow type."""
    import pyarrow as pa

    from josefine_arrow.formats.json.decoder import storage_type
    from josefine_arrow.formats.json.writer import json_text

    stored = storage_type(kind)

    def as_text(data: bytes) -> tuple[str | None, str | None]:
        value, why = read(data)
        if why is not None:
            return None, why
        (row,) = pa.array([value], stored).to_pylist()
        return json_text(row, kind), None

    return as_text


def _of_options(how: str, schema: str | None, message: str | None, registry: str | None) -> Read:
    if how not in FORMATS:
        raise UsageError(f"--decode '{how}': expected {', '.join(FORMATS)} or a pipeline's .yaml")
    if message is not None and how != "protobuf":
        raise UsageError("--message is for --decode protobuf")
    if schema is None and not (how in ("avro", "protobuf") and registry is not None):
        raise UsageError(f"--decode {how} needs --schema")
    if registry is not None and how not in ("avro", "protobuf"):
        raise UsageError(f"--registry is not for --decode {how}")
    if how == "avro":
        return _avro(None if schema is None else _text(schema, ".avsc"), registry)
    if how == "protobuf" and schema is None:
        assert registry is not None
        if message is not None:
            raise UsageError("--message is of --schema: a registry's records name their message")
        return protobuf_as_written(registry)
    assert schema is not None
    if how == "protobuf":
        if message is None:
            raise UsageError("--decode protobuf needs --message, such as shop.Order")
        return _protobuf(_bytes(schema), message, registry)
    return _columns(how, _text(schema, ".ddl"), JsonOptions())


def _of_file(name: str, topic: str) -> tuple[Decode, str]:
    """(the `decode` section for this topic, the time zone of times without one). Raises
    UserError."""
    from pipelines.base.errors import ConfigError
    from pipelines.base.variables import Variables
    from pipelines.config.validate import examine

    text, variables = _bytes(name).decode("utf-8", "replace"), Variables(env=os.environ)
    try:
        examined = examine(text, name, variables)
        if examined.problems:
            raise ConfigError(examined.problems)
    except ConfigError as error:
        raise UserError(str(error)) from error
    pipeline = examined.pipeline
    sources = [each for each in pipeline.sources.values() if each.decode is not None]
    fitting = [each for each in sources if topic in (each.topics or ())] or sources
    if len(fitting) != 1:
        found = "no source decodes values" if not fitting else "several sources decode this topic"
        raise UserError(f"{name}: {found}")
    assert fitting[0].decode is not None
    return fitting[0].decode, pipeline.conf.get("spark.sql.session.timeZone", "UTC")


def reads_section(how: Decode) -> bool:
    """Whether `section_reader` reads the values of a `decode` section."""
    if how.explodes or how.format.value not in FORMATS:
        return False
    if how.format.value in ("avro", "protobuf"):
        return not how.record_type
    return not how.framed or (how.format.value == "json" and how.registry is not None)


def section_reader(how: Decode, zone: str) -> Read:
    """The decoder of a `decode` section. `zone`: of times without one. Raises UserError."""
    if how.format.value == "avro":
        return _avro(how.avro, how.registry if how.framed else None)
    if how.format.value == "protobuf":
        registry = how.registry if how.framed else None
        return _protobuf(how.descriptors, how.message, registry)
    is_framed_json = how.format.value == "json" and how.framed and not how.explodes
    if how.format.value not in FORMATS or (how.framed and not is_framed_json):
        raise UserError(f"--decode does not read {how.format.value} of this file's kind yet")
    options = JsonOptions(time_zone=zone, strict=how.strict, accept=frozenset(how.accept))
    read = _columns(how.format.value, how.schema.text, options, how.separator)
    return _framed_json(read, how) if is_framed_json else read


def _framed_json(read: Read, how: Decode) -> Read:
    """JSON after a frame. Without a `type` the frame's schema is not used, and not requested."""
    from josefine_arrow.formats.confluent.framing import FramingError, split
    from josefine_arrow.formats.json.record_types import skipping, type_filter_of

    if how.record_type:
        if how.registry is None:
            raise UserError("the registry's address is a secret that could not be read")
        types = type_filter_of(how.record_type, how.registry, skips=how.skips_other_types)
        return skipping(read, types)

    def unframed(data: bytes) -> tuple[str | None, str | None]:
        try:
            return read(split(data)[1])
        except FramingError as error:
            return None, str(error)

    return unframed


def _avro(schema: str | None, registry: str | None) -> Read:
    from josefine_arrow.formats.avro.decoder import arrow_of, decoder_of
    from josefine_arrow.formats.avro.schema import SchemaError, parse_record

    if schema is None:
        assert registry is not None
        return avro_as_written(registry)
    try:
        return _as_json(decoder_of(schema, registry), arrow_of(parse_record(schema)))
    except SchemaError as error:
        raise UserError(f"not a valid Avro schema: {error}") from error


def avro_as_written(registry: str) -> Read:
    """A reader of framed Avro: each record by the schema that it was written with. Raises
    UsageError for an address that is none."""
    from josefine_arrow.formats.avro.schema import SchemaError
    from josefine_arrow.formats.confluent.framing import FramingError, split
    from josefine_arrow.formats.confluent.schema_references import NoSchemaError
    from josefine_arrow.formats.confluent.schema_registry import AVRO

    schema_of = _registry(registry, AVRO).schema
    readers: dict[int, Read] = {}

    def read(data: bytes) -> tuple[str | None, str | None]:
        try:
            number, _ = split(data)
            if number not in readers:
                # Its own references are found again by its id.
                readers[number] = _avro(schema_of(number).text, registry)
            return readers[number](data)
        except (FramingError, NoSchemaError, SchemaError, UserError) as error:
            return None, str(error)

    return read


def protobuf_as_written(registry: str) -> Read:
    """A reader of framed Protobuf: each record by the message that its frame names, of the file
    that it was written with. Raises UsageError for an address that is none, UserError."""
    need("consume --decode protobuf", "google.protobuf")
    from josefine_arrow.formats.confluent.framing import FramingError, indexes, split
    from josefine_arrow.formats.confluent.schema_references import NoSchemaError
    from josefine_arrow.formats.confluent.schema_registry import PROTOBUF
    from josefine_arrow.formats.protobuf.descriptors import SchemaError, name_at
    from josefine_arrow.formats.protobuf.registered import descriptors_of

    schema_of = _registry(registry, PROTOBUF).schema
    # A schema is a file with several messages, of which the frame names one.
    readers: dict[tuple[int, tuple[int, ...]], Read] = {}

    def read(data: bytes) -> tuple[str | None, str | None]:
        try:
            number, rest = split(data)
            which, message = indexes(rest)
            if (number, which) not in readers:
                schema = schema_of(number)
                try:
                    name = name_at(schema.text, which)
                    descriptors = descriptors_of(*schema)
                except SchemaError as error:
                    raise NoSchemaError(f"schema {number}: {error}") from error
                readers[number, which] = _protobuf(descriptors, name, None)
            return readers[number, which](message)
        except (FramingError, NoSchemaError, UserError) as error:
            return None, str(error)

    return read


def _registry(address: str, kind: str) -> Registry:
    """The client of a registry, with all that its schemas import. Raises UsageError."""
    from josefine_arrow.formats.confluent.schema_registry import address_of
    from josefine_arrow.formats.confluent.schema_registry_http import registry_at

    try:
        address_of(address)
    except ValueError as error:
        raise UsageError(f"--registry '{address}': {error}") from error
    return registry_at(address, kind, with_imports=kind == "PROTOBUF")


def _protobuf(schema: bytes, message: str, registry: str | None) -> Read:
    need("consume --decode protobuf", "google.protobuf")
    from josefine_arrow.formats.protobuf.decoder import arrow_of, decoder_of
    from josefine_arrow.formats.protobuf.descriptors import SchemaError

    try:
        decoder = decoder_of(schema, message, registry)
    except SchemaError as error:
        raise UserError(f"no descriptors with {message}: {error}") from error
    return _as_json(decoder, arrow_of(decoder.type))


def _columns(how: str, ddl: str, options: JsonOptions, separator: str = ",") -> Read:
    from josefine_arrow.formats.csv.line_reader import LineReader
    from josefine_arrow.formats.json.value_reader import ObjectReader
    from josefine_arrow.schema.ddl_types import DdlError, struct_of

    try:
        kind = struct_of(ddl)
    except DdlError as error:
        raise UserError(f"not a schema: {error}") from error
    if how == "csv":
        return _as_json(LineReader(kind, options, separator).read, kind)
    return _as_json(ObjectReader(kind, options).read, kind)


def _text(schema: str, suffix: str) -> str:
    """A schema given as text, or in a file with this suffix."""
    if not schema.endswith(suffix):
        return schema
    return _bytes(schema).decode("utf-8", "replace")


def _bytes(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from error
