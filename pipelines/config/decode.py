"""Reader of a source's `decode` section: how its values and keys are decoded.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

import re
from pathlib import Path

from josefine_arrow.formats.avro.schema import SchemaError, columns_of, parse_record, sql_of
from josefine_arrow.formats.confluent.schema_registry import address_of
from josefine_arrow.formats.debezium import envelope
from josefine_arrow.formats.json.options import ACCEPT, contradiction
from josefine_arrow.formats.protobuf import descriptors as protobuf_schema
from josefine_arrow.schema.ddl import TYPES as COLUMN_TYPES
from josefine_arrow.schema.ddl import names_twice, unknown_types
from pipelines.config.gaps import gaps_of
from pipelines.config.keywords import FORMATS, WORDS
from pipelines.config.record_types import names_types, record_type, skips_other_types
from pipelines.config.section import Reader, nearest
from pipelines.model.pipeline import Decode, Format, OnError, Placed

_NESTED = re.compile(r"\b(ARRAY|MAP|STRUCT)\s*<", re.IGNORECASE)


def decodes_of(source: Reader) -> tuple[Decode | None, Decode | None]:
    """The decoding of (values, keys); None: they stay bytes."""
    reader = source.section_of("decode")
    if reader is None:
        return None, None
    if not (reader.has("value") or reader.has("key")):
        reader.problem(reader.table.place, reader.table.path, "expected `value`, `key` or both")
    value, key = reader.section_of("value"), reader.section_of("key")
    of_value = _decode(value, OnError.FAIL) if value else None
    of_key = _decode(key, of_value.on_error if of_value else OnError.FAIL) if key else None
    if value and key and of_value and of_key and not _is_gap(value) and not _is_gap(key):
        _refuse_both(key, of_value.on_error, of_key.on_error)
    return of_value, of_key


def _is_gap(reader: Reader) -> bool:
    """Whether `on_error` could not be read, which is a problem already."""
    return gaps_of(reader.problems).covers(reader.path_of("on_error"))


def _refuse_both(key: Reader, of_value: OnError, of_key: OnError) -> None:
    """A record cannot be a dead letter because of its key and stop the run because of its value."""
    if {of_value, of_key} == {OnError.DEAD_LETTER, OnError.FAIL}:
        said = of_value.value
        key.wrong_at("on_error", f"the value's is {said}: expected {said} or null for the key")


def _decode(reader: Reader, on_error: OnError) -> Decode | None:
    said = reader.choice("format")
    said_on_error = reader.choice("on_error")
    if said is None:
        return None
    reader.refuse_others("format", said, FORMATS)
    own = FORMATS[said]
    for word in own.required:
        if not reader.has(word):
            reader.missing(word)
    avro, descriptors, message, row, named = "", b"", "", "", ""
    if said == "debezium":
        schema, avro, row = _debezium(reader)
    elif said == "avro":
        schema, avro, named = _avro(reader)
    elif said == "protobuf":
        schema, descriptors, message = _protobuf(reader)
    else:
        schema = schema_of(reader, said) if "schema" in own.required else reader.placed("schema")
        named = record_type(reader) if said == "json" else ""
    separator = reader.text("separator")
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        reader.wrong_at("separator", f"expected one character, not a quote; found `{separator}`")
    strict = reader.flag("strict")
    is_value = reader.section == "decode value"
    tombstones = is_value and reader.flag("tombstones")
    explodes = is_value and reader.flag("explode")
    if said == "raw":
        # Only now: the keys of a raw value are checked like those of any other format.
        return None
    return Decode(
        format=Format(said),
        schema=schema,
        on_error=OnError(said_on_error) if said_on_error else on_error,
        separator=separator or ",",
        strict=strict,
        accept=_accepted(reader),
        tombstones=tombstones,
        explodes=explodes,
        avro=avro,
        record_type=named,
        skips_other_types=skips_other_types(reader, said, avro),
        row=row,
        documents=bool(row) and reader.flag("documents"),
        descriptors=descriptors,
        message=message,
        framed=reader.has("registry"),
        registry=_registry(reader),
    )


def _accepted(reader: Reader) -> tuple[str, ...]:
    names = reader.texts("accept")
    unknown = [name for name in names if name not in ACCEPT]
    if unknown:
        hint = nearest(unknown[0], ACCEPT) or f"; expected some of: {', '.join(ACCEPT)}"
        reader.wrong_at("accept", f"no exception `{unknown[0]}`{hint}")
    elif contradiction(names):
        reader.wrong_at("accept", contradiction(names))
    return tuple(sorted(names))


def _registry(reader: Reader) -> str | None:
    url = reader.text("registry")
    if url is not None:
        try:
            address_of(url)
        except ValueError:
            reader.wrong_at("registry", f"expected {WORDS[reader.section]['registry'].expected}")
    return url


def _avro(reader: Reader) -> tuple[Placed, str, str]:
    """(the columns, the text of the Avro schema, the name of its record if names count)."""
    text: str | None = reader.text("schema") or ""
    columns = ""
    if text and text.endswith(".avsc"):
        text = _file(reader, text)
    name = ""
    is_known = not reader.has("type") or bool(record_type(reader))
    if text and is_known:
        try:
            record = parse_record(text, record_type(reader))
            columns, name = columns_of(record), record.name
        except SchemaError as error:
            reader.wrong_at("schema", f"not a valid Avro schema: {error}")
    named = name if names_types(reader) else ""
    return _placed(reader, columns), text if text and columns else "", named


def _debezium(reader: Reader) -> tuple[Placed, str, str]:
    """(the columns, the Avro schema of the envelope or "", the row's columns if it is "")."""
    text: str = reader.text("schema") or ""
    if not (text.endswith(".avsc") or text.lstrip().startswith("{")):
        row = schema_of(reader).text
        of = envelope.documents_of if reader.flag("documents") else envelope.envelope_of
        columns = envelope.columns_of(of(row), f"STRUCT<{row}>") if row else ""
        return _placed(reader, columns), "", row
    for word in ("strict", "accept", "documents"):
        if reader.has(word):
            reader.wrong_at(word, f"`{word}` is for JSON; this schema is Avro's")
    avro: str | None = _file(reader, text) if text.endswith(".avsc") else text
    columns = ""
    try:
        if avro:
            record = parse_record(avro)
            row = sql_of(envelope.row_of(record))
            columns = envelope.columns_of(columns_of(record), row)
    except SchemaError as error:
        reader.wrong_at("schema", f"not a valid Avro schema: {error}")
    return _placed(reader, columns), avro if avro and columns else "", ""


def _placed(reader: Reader, columns: str) -> Placed:
    """Column names must differ by more than letter case."""
    for one, again in names_twice(columns):
        reader.wrong_at("schema", twice(one, again))
    return Placed(text=columns, place=reader.place_of("schema"), path=reader.path_of("schema"))


def _protobuf(reader: Reader) -> tuple[Placed, bytes, str]:
    """(the columns, the descriptors, the full name of the message)."""
    name, message = reader.text("schema"), reader.text("message") or ""
    data = _bytes(reader, name) if name else None
    columns = ""
    if data is not None and message:
        try:
            columns = protobuf_schema.columns_of(
                protobuf_schema.type_of(protobuf_schema.message_of(data, message).DESCRIPTOR)
            )
        except protobuf_schema.SchemaError as error:
            reader.wrong_at("schema", f"{name}: {error}")
    is_whole = data is not None and columns
    return (
        _placed(reader, columns),
        data if is_whole and data else b"",
        message if is_whole else "",
    )


def schema_of(reader: Reader, said: str = "") -> Placed:
    """Columns as in SQL, from this file or a .ddl file. `said`: the format, if it matters."""
    text = reader.text("schema") or ""
    if text.endswith(".ddl"):
        text = _file(reader, text) or ""
    for word in unknown_types(text):
        hint = (
            nearest(word.upper(), COLUMN_TYPES)
            or f"; expected one of: {', '.join(sorted(COLUMN_TYPES))}"
        )
        reader.wrong_at("schema", f"no type `{word}`{hint}")
    nested = _NESTED.search(text)
    if said == "csv" and nested:
        reader.wrong_at("schema", f"a field of csv is no {nested[1].upper()}")
    return _placed(reader, " ".join(text.split()))


def twice(one: str, again: str) -> str:
    """The problem of a column name that is used twice."""
    if one == again:
        return f"column `{one}` is listed twice"
    return f"`{one}` and `{again}` are one column for Spark, which ignores letter case"


def _file(reader: Reader, name: str) -> str | None:
    """The text of a file next to the pipeline file; None if it cannot be read."""
    data = _bytes(reader, name)
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        reader.wrong_at("schema", f"{_beside(reader, name)}: not UTF-8 text")
    return None


def _bytes(reader: Reader, name: str) -> bytes | None:
    file = _beside(reader, name)
    try:
        return file.read_bytes()
    except OSError as error:
        reader.wrong_at("schema", f"{file}: {error.strerror}")
    return None


def _beside(reader: Reader, name: str) -> Path:
    return Path(reader.place_of("schema").file).parent / name
