"""docs/reference/values.md: what values of JSON, CSV, Avro and Protobuf become, by the decoders."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, timestamp_pb2

from josefine_arrow.formats.avro.decoder import Decoder as AvroDecoder
from josefine_arrow.formats.avro.decoder import arrow_of as arrow_of_avro
from josefine_arrow.formats.avro.schema import parse_record, sql_of
from josefine_arrow.formats.avro.writer import encoded as avro_encoded
from josefine_arrow.formats.csv.line_reader import LineReader
from josefine_arrow.formats.json.decoder import storage_type
from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.json.value_reader import MISFIT, ObjectReader
from josefine_arrow.formats.protobuf.decoder import Decoder as ProtobufDecoder
from josefine_arrow.formats.protobuf.decoder import arrow_of as arrow_of_protobuf
from josefine_arrow.formats.protobuf.decoder import encoded as protobuf_encoded
from josefine_arrow.schema.names import sql_name

_OPTIONS = JsonOptions(time_zone="Europe/Berlin")
_DAYS, _UTC, _LOCAL = pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us")

JSON: list[tuple[pa.DataType, list[str]]] = [
    (pa.string(), ['"a"', "1.10", "true", '{"b" : [1, 2.50]}', '""', r'"\ud83d\ude00"',
                   r'"\ud800"', "null"]),
    (pa.bool_(), ["true", '"true"', "1"]),
    (pa.int32(), ["1", "-0", "1.0", "1e2", '"1"', "2147483648"]),
    (pa.int64(), ["9223372036854775807", "9223372036854775808"]),
    (pa.float64(), ["0.1", "1e308", "1e400", "1e-400", "9007199254740993", "NaN", '"NaN"']),
    (pa.float32(), ["0.1", "1e39"]),
    (pa.decimal128(6, 2), ["1.10", "1.1000", "1.105", "1e3", "10000", '"1.5"', '"1,234.50"']),
    (pa.decimal128(38, 0), ["18446744073709551615", "1.0", "1e38"]),
    (_DAYS, ['"2024-01-05"', '"20240105"', '"2024-1-5"', '"2024-02-30"', '"2024-01-05T00:00:00"',
             "19727"]),
    (_UTC, ['"2024-01-05T10:15:30Z"', '"2024-01-05 10:15:30.123456+01:00"',
            '"2024-01-05T10:15:30"', '"2024-01-05"', '"2024-01-05 10:15 America/New_York"',
            '"2024-03-31 02:30:00"', '"2024-10-27 02:30:00"', '"2024-01-05T10:15:30.1234567Z"',
            '"10:15"', "1704449730"]),
    (_LOCAL, ['"2024-01-05T10:15:30.5"', '"2024-01-05T10:15:30Z"']),
    (pa.binary(), ['"AAE="', '"AAE"']),
    (pa.json_(), ['{"b" : [1, 2.50]}', '{"k": 1, "k": 2}', "1e400"]),
    (pa.list_(pa.int32()), ["[1, null]", "[]", "[1, 2.5]", "1"]),
    (pa.map_(pa.string(), pa.int32()), ['{"a": 1, "b": null}', '{"a": 1, "a": 2}', '{"a": "x"}']),
    (pa.struct([("a", pa.int32())]), ['{"a": 1, "other": 2}', '{"a": 1, "a": 2}', "{}", "[1]"]),
]  # fmt: skip

JSON_TEXTS = [
    '{"x": 1}', '\ufeff{"x": 1}', '{"x": 1, "x": 2}', '{"x": 1} rest', '{"x": 1}{"x": 2}',
    '[{"x": 1}]', "{'x': 1}", '{"x": 01}', "null", "",
]  # fmt: skip

CSV: list[tuple[pa.DataType, list[str]]] = [
    (pa.string(), ["a", '"a ""b"" c"', 'a "b" c', '"a', ""]),
    (pa.bool_(), ["true", "TRUE", "1"]),
    (pa.int32(), ["1", "+1", "007", "1.0", " 1"]),
    (pa.float64(), ["0.1", ".5", "1e400", "NaN"]),
    (pa.decimal128(6, 2), ["1.10", "1.105", '"2,5"']),
    (_DAYS, ["2024-01-05", "20240105"]),
    (_UTC, ["2024-01-05T10:15:30Z", "2024-01-05 10:15:30", "10:15"]),
]  # fmt: skip

AVRO: list[tuple[Any, Any]] = [
    ("boolean", True),
    ("int", -5),
    ("long", 1 << 40),
    ("float", 0.1),
    ("double", 0.1),
    ("string", "a"),
    ("bytes", "\u0000\u00ff"),
    ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u0001"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "int"}, {"a": 1}),
    ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {"a": 1}),
    (["null", "int"], None),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, "1.10"),
    ({"type": "int", "logicalType": "date"}, "2024-01-05"),
    ({"type": "long", "logicalType": "timestamp-millis"}, "2024-01-05T10:15:30.123Z"),
    ({"type": "long", "logicalType": "timestamp-micros"}, "2024-01-05T10:15:30.123456Z"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, "2024-01-05T10:15:30.5"),
    ({"type": "string", "logicalType": "uuid"}, "6f1d1a52-6d0f-4c3c-9d0a-0c8a4d0c1c11"),
    ({"type": "int", "logicalType": "time-millis"}, 36930000),
]

_FIELD = descriptor_pb2.FieldDescriptorProto
PROTOBUF: list[tuple[str, Any]] = [
    ("bool", True),
    ("int32", -5),
    ("int64", "-5"),
    ("uint32", 4294967295),
    ("uint64", "18446744073709551615"),
    ("fixed64", "18446744073709551615"),
    ("float", 0.1),
    ("double", 0.1),
    ("string", "a"),
    ("bytes", "AP8="),
    ("google.protobuf.Timestamp", "2024-01-05T10:15:30.123456Z"),
]


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            "# What becomes of a value",
            "",
            "Made by `./build.sh docs`, which runs the decoders on these values; the rules are in",
            "[What JSON becomes](pipelines/decoding.md#what-json-becomes) and the sections around.",
            "The time zone of the session is Europe/Berlin here.",
            "",
            "## JSON",
            "",
            *_table("column `x`", "in the object as `x`", _json_rows()),
            "",
            "The text of a value, where `x` is an INT:",
            "",
            *_table("column `x`", "the text", _json_texts()),
            "",
            "## CSV",
            "",
            *_table("column `x`", "the line", _csv_rows()),
            "",
            "## Avro",
            "",
            *_table("column", "the field's type and value", _avro_rows()),
            "",
            "## Protobuf",
            "",
            *_table("column", "the field's type and value", _protobuf_rows()),
            "",
        ]
    )


def _table(first: str, second: str, rows: list[tuple[str, str, str]]) -> list[str]:
    lines = [f"| {first} | {second} | becomes |", "|---|---|---|"]
    shown = ""
    for kind, sent, becomes in rows:
        name = f"`{kind}`" if kind != shown else ""
        shown = kind
        lines.append(f"| {name} | {_code(sent)} | {becomes} |")
    return lines


def _code(text: str) -> str:
    text = text.replace("|", "\\|").replace("\ufeff", "(byte order mark) ")
    return f"`{text}`" if text else "nothing"


def _json_rows() -> list[tuple[str, str, str]]:
    found = []
    for kind, texts in JSON:
        whole = pa.struct([("x", kind)])
        read = ObjectReader(whole, _OPTIONS).read
        for text in texts:
            made = read(f'{{"x": {text}}}'.encode())
            found.append((sql_name(kind), text, _becomes(made, storage_type(whole))))
    return found


def _json_texts() -> list[tuple[str, str, str]]:
    whole = pa.struct([("x", pa.int32())])
    read = ObjectReader(whole, _OPTIONS).read
    return [("INT", text, _becomes(read(text.encode()), whole)) for text in JSON_TEXTS]


def _csv_rows() -> list[tuple[str, str, str]]:
    found = []
    for kind, texts in CSV:
        whole = pa.struct([("x", kind)])
        read = LineReader(whole, _OPTIONS).read
        found += [(sql_name(kind), text, _becomes(read(text.encode()), whole)) for text in texts]
    return found


def _avro_rows() -> list[tuple[str, str, str]]:
    found = []
    for kind, value in AVRO:
        fields = [{"name": "x", "type": kind}]
        schema = json.dumps({"type": "record", "name": "T", "fields": fields})
        record = parse_record(schema)
        made = AvroDecoder(schema)(avro_encoded(record, {"x": value}))
        name = sql_of(record.fields[0].type, "x").replace("`", "")
        sent = f"{json.dumps(kind).strip(chr(34))}: {json.dumps(value)}"
        found.append((name, sent, _becomes(made, arrow_of_avro(record))))
    return found


def _protobuf_rows() -> list[tuple[str, str, str]]:
    found = []
    for kind, value in PROTOBUF:
        schema = _descriptors(kind)
        decoder = ProtobufDecoder(schema, "t.T")
        made = decoder(protobuf_encoded(schema, "t.T", {"x": value}))
        arrow = arrow_of_protobuf(decoder.type)
        sent = f"{kind}: {json.dumps(value)}"
        found.append((sql_name(arrow.field("x").type), sent, _becomes(made, arrow)))
    return found


def _descriptors(kind: str) -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="T")
    number, name = _FIELD.TYPE_MESSAGE, f".{kind}"
    if "." not in kind:
        number, name = getattr(_FIELD, f"TYPE_{kind.upper()}"), None
    message.field.add(name="x", number=1, type=number, label=1, type_name=name)
    imported = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(imported)
    return descriptor_pb2.FileDescriptorSet(file=[imported, file]).SerializeToString()


def _becomes(made: tuple[Any, str | None], kind: pa.DataType) -> str:
    value, why = made
    if why is not None:
        return f"bad: `{why.removeprefix(MISFIT)}`"
    (row,) = pa.array([value], kind).to_pylist()
    if row["x"] is None:
        return "null"
    return _code(str(row["x"])) if row["x"] != "" else "an empty text"
