"""Columns of Avro records read at once: the same values and reasons as one by one."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from josefine_arrow.formats import value_by_value
from josefine_arrow.formats.avro import column_decoder
from josefine_arrow.formats.avro.column_decoder import ColumnDecoder
from josefine_arrow.formats.avro.decoder import Decoder, arrow_of
from josefine_arrow.formats.avro.schema import parse, parse_record
from josefine_arrow.formats.avro.writer import encoded
from josefine_arrow.formats.confluent.framing import framed
from josefine_arrow.formats.confluent.schema_references import NoSchemaError, Schema

INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 25, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 3}
SMALL = {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 6}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
FEWER = {"type": "enum", "name": "E", "symbols": ["A", "C"]}
INNER = {"type": "record", "name": "I", "fields": [
    {"name": "x", "type": "long"}, {"name": "y", "type": ["string", "null"]},
]}  # fmt: skip
ARRAY = {"type": "array", "items": "int"}
LATIN = st.text(st.characters(max_codepoint=255), max_size=6)
# (written type, read type or None: it is not read, values)
FIELDS: list[tuple[Any, Any, Any]] = [
    ("int", "int", INT), ("int", "long", INT), ("int", "double", INT), ("long", "float", LONG),
    ("long", "long", LONG), ("long", None, LONG), ("boolean", "boolean", st.booleans()),
    ("float", "double", st.floats(width=32, allow_nan=False)),
    ("double", "double", st.floats(allow_nan=False)), ("string", "string", st.text(max_size=9)),
    ("string", ["null", "string"], LATIN), ("bytes", "bytes", LATIN), ("bytes", "string", LATIN),
    ("string", "bytes", LATIN), (MILLIS, MICROS, INT), (MILLIS, MILLIS, INT),
    ("long", MILLIS, LONG),
    ({"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "date"}, INT),
    (["null", "long"], ["null", "long"], st.none() | LONG),
    (["string", "null"], ["null", "string"], st.none() | LATIN),
    (["null", "int", "string"], ["null", "string"], st.none() | INT | LATIN),
    (["null", "int", "long"], ["null", "long"], st.none() | INT),
    (DECIMAL, DECIMAL, st.integers(-(10**23), 10**23)), (SMALL, SMALL, st.integers(-2000, 2000)),
    (FIXED, FIXED, st.just("abc")), (ENUM, ENUM, st.sampled_from("ABC")),
    (ENUM, FEWER, st.sampled_from("ABC")), (ENUM, None, st.sampled_from("ABC")),
    (INNER, INNER, st.fixed_dictionaries({"x": LONG, "y": st.none() | LATIN})),
    (["null", INNER], ["null", INNER], st.none() | st.fixed_dictionaries({"x": INT, "y": LATIN})),
    (ARRAY, ARRAY, st.lists(INT, max_size=2)),
    (None, ["null", "int"], None), (None, "string", None),
]  # fmt: skip


@st.composite
def columns(draw: Any) -> tuple[Any, Any, list[bytes | None]]:
    """(the writer's schema, the reader's, records of which some are damaged)."""
    chosen = draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=5))
    used: set[str] = set()
    writes, reads = [], []
    for at, (written, read, values) in enumerate(chosen):
        # A named type may be declared once.
        names = {n for n in ("F", "D", "E", "I") if f'"name": "{n}"' in json.dumps([written, read])}
        if used & names:
            continue
        used |= names
        if written is not None:
            writes.append(({"name": f"f{at}", "type": written}, values))
        if read is not None:
            default = {} if written is not None else {"default": None if "null" in read else "d"}
            reads.append({"name": f"f{at}", "type": read, **default})
    if not writes or not reads:
        return columns_of_one(draw)
    writer = {"type": "record", "name": "R", "fields": [field for field, _ in writes]}
    reader = {"type": "record", "name": "R", "fields": draw(st.permutations(reads))}
    record = st.fixed_dictionaries({field["name"]: values for field, values in writes})
    rows = draw(st.lists(st.none() | st.tuples(record, DAMAGE), max_size=6))
    kind = parse(json.dumps(writer))
    return writer, reader, [row and damaged(encoded(kind, row[0]), row[1]) for row in rows]


def columns_of_one(draw: Any) -> tuple[Any, Any, list[bytes | None]]:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    return schema, schema, draw(st.lists(st.binary(max_size=11), max_size=6))


DAMAGE = st.none() | st.tuples(st.integers(0, 40), st.binary(max_size=2), st.integers(0, 2))


def damaged(data: bytes, how: tuple[int, bytes, int] | None) -> bytes:
    """Some bytes in place of others."""
    if how is None:
        return data
    at, put, left_out = how
    at %= len(data) + 1
    return data[:at] + put + data[at + left_out :]


@pytest.mark.parametrize("is_framed", [False, True])
@given(found=columns())
@settings(max_examples=150, deadline=None)
def test_columns_have_the_values_and_reasons_of_records_that_are_read_one_by_one(
    is_framed: bool, found: tuple[Any, Any, list[bytes | None]]
) -> None:
    writer, reader, records = found
    if not is_framed:
        # Records without a frame are of the reader's schema; unions of several types are no column.
        assume('"int", "' not in json.dumps(writer))
        reader = writer

    def written(number: int) -> Schema:
        if number != 1:
            raise NoSchemaError(f"schema {number}: unknown")
        return Schema(json.dumps(writer))

    decoder = Decoder(json.dumps(reader), written if is_framed else None)
    kind = arrow_of(parse_record(json.dumps(reader)))
    if is_framed:
        records = [row if row is None else framed(1 + (len(row) % 7 == 3), row) for row in records]
        records += [b"", b"\0\0\0\0", b"x" + bytes(4)]
    # A slice: the column's memory starts before its first value.
    values = pa.array([b"before", *records], pa.binary()).slice(1)

    before, column_decoder.ROWS_MIN = column_decoder.ROWS_MIN, 1
    try:
        rows, reasons = ColumnDecoder(decoder, kind, is_framed=is_framed).decode(values)
    finally:
        column_decoder.ROWS_MIN = before
    expected, why = value_by_value.one_by_one(values, decoder, kind)

    rows.validate(full=True)
    assert reasons.to_pylist() == why.to_pylist()
    assert shown(rows) == shown(expected)


def shown(column: Any) -> list[Any]:
    """A column as texts: Python has no dates as far away as Avro has, and NaN is no equal of
    itself."""
    if not pa.types.is_struct(column.type):
        return [column.to_string(window=20)]
    parts = [text for part in column.flatten() for text in shown(part)]
    return [column.is_valid().to_pylist(), *parts]


@pytest.mark.parametrize(
    "data", [b"\xff" * 9 + last for last in (b"\x01", b"\x02", b"\x03", b"\x81\x00", b"\xff\x01")]
)
def test_a_number_beyond_64_bits_is_left(data: bytes) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]})
    decoder = Decoder(text)
    found = ColumnDecoder(decoder, arrow_of(parse(text)), is_framed=False)

    plain = found.plain(pa.array([data], pa.binary()))

    value = decoder(data)[0]
    assert (None if plain is None else plain.to_pylist()) == (None if value is None else [value])


def test_plain_records_are_read_at_once_and_only_damaged_ones_are_left() -> None:
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]},
    ]}  # fmt: skip
    text = json.dumps(schema)
    kind = parse(text)
    rows: list[bytes] = [encoded(kind, {"n": n << 40, "s": "é" * (n % 3)}) for n in range(40)]
    rows[7] = rows[7][:-1]
    decoder = ColumnDecoder(Decoder(text), arrow_of(kind), is_framed=False)

    found = decoder.plain(pa.array(rows, pa.binary()))

    assert [at for at, each in enumerate(found.to_pylist()) if each is None] == [7]


NUMBER = {"name": "n", "type": "int"}
EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"name": "f", "type": "null"}, {"name": "f", "type": ["null", "string"]}),
        ({"name": "f", "type": "null"}, {"name": "f", "type": ["null", INNER]}),
        ({"name": "f", "type": "null"}, None),
        ({"name": "f", "type": ["null", EMPTY]}, None),
        ({"name": "f", "type": EMPTY}, None),
    ],
)
def test_fields_without_bytes_are_read_like_one_by_one(written: Any, read: Any) -> None:
    writer = {"type": "record", "name": "R", "fields": [written, NUMBER]}
    reader = {"type": "record", "name": "R", "fields": [*filter(None, [read]), NUMBER]}
    decoder = Decoder(json.dumps(reader), lambda number: Schema(json.dumps(writer)))
    kind = arrow_of(parse_record(json.dumps(reader)))
    bodies = [b"\x02", b"\x00\x02", b"\x02\x02", b"\x80"] * 10
    values = pa.array([framed(1, body) for body in bodies], pa.binary())

    rows, reasons = ColumnDecoder(decoder, kind, is_framed=True).decode(values)

    expected, why = value_by_value.one_by_one(values, decoder, kind)
    assert rows.to_pylist() == expected.to_pylist()
    assert reasons.to_pylist() == why.to_pylist()


def test_a_signaling_nan_is_a_nan_without_a_warning() -> None:
    fields = [[{"name": "n", "type": kind}] for kind in ("float", "double")]
    texts = [json.dumps({"type": "record", "name": "R", "fields": each}) for each in fields]
    decoder = Decoder(texts[1], lambda number: Schema(texts[0]))
    values = pa.array([framed(1, b"\x01\x00\x80\x7f")] * 20, pa.binary())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows, _ = ColumnDecoder(decoder, arrow_of(parse(texts[1])), is_framed=True).decode(values)

    assert all(value != value for value in rows.field("n").to_pylist())
