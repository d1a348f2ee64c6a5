"""Decoders of a source's records, made from its `decode` section: key and value by format."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from josefine_arrow.formats.avro.schema import parse_record
from josefine_arrow.formats.confluent.framing import OWN
from josefine_arrow.formats.debezium.envelope import (
    SOURCE_NAMES,
    documents_of,
    envelope_of,
    source_names,
    wide_of,
)
from josefine_arrow.formats.json.options import JsonOptions
from pipelines.formats.avro import AvroValues
from pipelines.formats.confluent_framed import FramedValues
from pipelines.formats.debezium_rows import DebeziumValues, DocumentEnvelopes, EnvelopeInJson
from pipelines.formats.decode import Reading, Side, Values
from pipelines.formats.json import JsonValues, time_zone
from pipelines.formats.json_elements import ElementValues
from pipelines.formats.json_record_types import TypedJsonValues
from pipelines.formats.protobuf import ProtobufValues
from pipelines.formats.text import CsvValues, TextValues
from pipelines.model.pipeline import Decode, Format, OnError, Placed, Source
from pipelines.spark.errors import complaint, refusal

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def reading_of(source: Source, *, offline: bool = False) -> Reading | None:
    """The decoders of a source's records; None: they stay bytes.

    `offline`: the records are in the pipeline file, and no registry has their schemas.
    """
    return _reading(source.decode, source.decode_key, offline or source.is_in_file, time_zone())


@lru_cache(maxsize=64)
def _reading(value: Decode | None, key: Decode | None, offline: bool, zone: str) -> Reading | None:
    """One for all batches, because it caches the columns that it makes. `zone`: that of a TIMESTAMP
    without one."""
    sides = []
    for column, how in (("value", value), ("key", key)):
        if how is None:
            continue
        is_change = how.format is Format.DEBEZIUM
        side = Side(
            column=column,
            values=_values(how, zone, offline=offline),
            null_is_good=how.tombstones or is_change or column == "key",
            leaves_out_null=is_change and not how.tombstones,
            null_for_bad=how.on_error is OnError.NULL,
            skips=how.skips_other_types,
            explodes=how.explodes,
            framed=how.framed,
        )
        sides.append(side)
    return tuple(sides) or None


def _values(how: Decode, zone: str, *, offline: bool) -> Values:
    registry = (OWN if offline else how.registry or OWN) if how.framed else None
    match how.format:
        case Format.STRING:
            return TextValues()
        case Format.CSV:
            csv = _decoded(how.schema, is_line=True)
            return CsvValues(csv, separator=how.separator, options=_json_options(how, zone))
        case Format.AVRO:
            _schema(how.schema)  # refuses names that differ only in case
            skips = how.skips_other_types
            return AvroValues(how.avro, registry, how.record_type, skips=skips)
        case Format.PROTOBUF:
            _schema(how.schema)
            skips = how.skips_other_types
            return ProtobufValues(how.descriptors, how.message, registry, skips=skips)
        case Format.JSON:
            if how.record_type:
                return _typed_json(how, registry, zone)
            json: Values = JsonValues(_decoded(how.schema), _json_options(how, zone))
            json = ElementValues(json) if how.explodes else json
            return FramedValues(json) if how.framed else json
        case Format.DEBEZIUM:
            return _changes(how, registry, zone)


def _typed_json(how: Decode, registry: str | None, zone: str) -> Values:
    """JSON of one record type, whose frame names its schema."""
    assert registry is not None, "config/record_types.py requires a registry"
    options, skips = _json_options(how, zone), how.skips_other_types
    return TypedJsonValues(_decoded(how.schema), options, how.record_type, registry, skips=skips)


def _changes(how: Decode, registry: str | None, zone: str) -> Values:
    """Debezium's envelopes, in Avro or JSON."""
    _schema(how.schema)
    if how.avro:
        record = parse_record(how.avro)
        names = [each.name for each in record.fields]
        fields = source_names(record) if how.position else None
        return DebeziumValues(AvroValues(how.avro, registry), names, fields)
    envelope = documents_of(None) if how.documents else envelope_of(how.row)
    row = _decoded(replace(how.schema, text=how.row))
    wide = _schema(replace(how.schema, text=wide_of(envelope)))
    json = EnvelopeInJson(wide, _json_options(how, zone))
    names = [name for name in wide.names if name != "payload"]
    inner: Values = FramedValues(json) if how.framed else json
    if how.documents:
        inner = DocumentEnvelopes(inner, names, row, _json_options(how, zone))
    fields = SOURCE_NAMES if how.position else None
    return DebeziumValues(inner, names, fields, documents=how.documents)


def _json_options(how: Decode, zone: str) -> JsonOptions:
    return JsonOptions(time_zone=zone, strict=how.strict, accept=frozenset(how.accept))


def _decoded(placed: Placed, *, is_line: bool = False) -> StructType:
    """The columns that JSON, or a line of CSV, is decoded into. Raises ConfigError."""
    from pyspark.sql.types import NullType, StringType, VariantType

    from josefine_spark.read.json_schema import unreadable

    schema = _schema(placed)
    also = (NullType, StringType) if is_line else (NullType, StringType, VariantType)
    other = unreadable(schema, also)
    if other is not None:
        message = f"{other} cannot be decoded from a value: declare another type"
        raise refusal(placed.place, placed.path, message)
    return schema


def _schema(placed: Placed) -> StructType:
    """The columns of a schema in the file. Raises ConfigError."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(placed.text)
        assert isinstance(schema, StructType)
    except PySparkException as error:
        raise complaint(placed.place, placed.path, error) from error
    names = [name.lower() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise refusal(placed.place, placed.path, f"column {', '.join(twice)} is there twice")
    return schema
