"""Avro by its specification: what is written is read, also by another schema; damage is told."""

from __future__ import annotations

import contextlib
import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_arrow.formats.avro.decoder import arrow_of
from josefine_arrow.formats.avro.primitives import AvroError
from josefine_arrow.formats.avro.reader import reader_of
from josefine_arrow.formats.avro.schema import SchemaError, columns_of, parse, parse_record
from josefine_arrow.formats.avro.writer import UnfitError, encoded


def record(*fields: Any, **more: Any) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "r", "fields": listed, **more})


def logical(kind: str, of: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": of, **more}


WHO = "12345678-1234-5678-1234-567812345678"

ALL = record(
    ("flag", "boolean"), ("small", "int"), ("big", "long"), ("ratio", "float"), ("wide", "double"),
    ("text", "string"), ("raw", "bytes"), ("maybe", ["null", "string"]),
    ("kind", {"type": "enum", "name": "kind", "symbols": ["A", "B"]}),
    ("mac", {"type": "fixed", "name": "mac", "size": 2}),
    ("tags", {"type": "array", "items": "string"}),
    ("by", {"type": "map", "values": ["null", "long"]}),
    ("at", logical("long", "timestamp-millis")), ("fine", logical("long", "timestamp-micros")),
    ("on", logical("int", "date")), ("price", logical("bytes", "decimal", precision=6, scale=2)),
    ("cost", logical("fixed", "decimal", name="f8", size=8, precision=6, scale=2)),
    ("who", logical("string", "uuid")), ("whom", logical("fixed", "uuid", name="u", size=16)),
    ("inner", {"type": "record", "name": "inner", "fields": [{"name": "id", "type": "int"}]}),
)  # fmt: skip

VALUE = {
    "flag": True, "small": -2, "big": 2**40, "ratio": 0.5, "wide": 0.1, "text": "ä", "raw": "\x00ÿ",
    "maybe": None, "kind": "B", "mac": "ab", "tags": ["x", ""], "by": {"a": 1, "b": None},
    "at": "2026-01-01T00:00:00Z", "fine": "1969-12-31T23:59:59.999999Z", "on": "1970-01-03",
    "price": -12.5, "cost": "-12.50", "who": WHO, "whom": WHO, "inner": {"id": 7},
}  # fmt: skip

READ = {
    **VALUE, "raw": b"\x00\xff", "mac": b"ab", "by": [("a", 1), ("b", None)],
    "at": 1_767_225_600_000_000, "fine": -1, "on": 2,
    "price": Decimal("-12.50"), "cost": Decimal("-12.50"),
}  # fmt: skip

BY_FASTAVRO = bytes.fromhex(
    "01038080808080400000003f9a9999999999b93f04c3a40400ff000261620402780000040261020202620000"
    "80a0d5edee66010404fb1efffffffffffffb1e4831323334353637382d313233342d353637382d313233342d"
    "353637383132333435363738123456781234567812345678123456780e"
)
"""VALUE as fastavro 1.13.1 writes it, which is no dependency (docs/decisions/0011)."""


def test_every_type_is_read_as_it_was_written() -> None:
    kind = parse_record(ALL)

    assert reader_of(kind, kind)(encoded(kind, VALUE)) == READ


def test_another_implementations_bytes_are_read_and_written() -> None:
    kind = parse_record(ALL)

    assert reader_of(kind, kind)(BY_FASTAVRO) == READ
    assert encoded(kind, VALUE) == BY_FASTAVRO


def test_the_specifications_own_example_is_read() -> None:
    """The record {a: 27, b: "foo"} of the chapter on records is 36 06 66 6f 6f."""
    kind = parse_record(record(("a", "long"), ("b", "string")))

    assert encoded(kind, {"a": 27, "b": "foo"}).hex() == "3606666f6f"
    assert reader_of(kind, kind)(bytes.fromhex("3606666f6f")) == {"a": 27, "b": "foo"}


def test_blocks_with_their_size_are_read() -> None:
    """A negative count is followed by the block's size in bytes: [3, 27] of the specification."""
    kind = parse_record(record(("a", {"type": "array", "items": "long"})))

    assert reader_of(kind, kind)(bytes.fromhex("0304063600")) == {"a": [3, 27]}


def test_a_record_has_the_columns_of_its_fields() -> None:
    assert columns_of(parse_record(ALL)) == (
        "`flag` BOOLEAN, `small` INT, `big` BIGINT, `ratio` FLOAT, `wide` DOUBLE, `text` STRING, "
        "`raw` BINARY, `maybe` STRING, `kind` STRING, `mac` BINARY, `tags` ARRAY<STRING>, "
        "`by` MAP<STRING, BIGINT>, `at` TIMESTAMP, `fine` TIMESTAMP, `on` DATE, "
        "`price` DECIMAL(6,2), `cost` DECIMAL(6,2), `who` STRING, `whom` STRING, "
        "`inner` STRUCT<`id`: INT>"
    )


def test_times_that_sql_has_not_are_numbers() -> None:
    kind = parse_record(
        record(
            ("day", logical("int", "time-millis")),
            ("at", logical("long", "timestamp-nanos")),
            ("here", logical("long", "local-timestamp-millis")),
        )
    )

    assert columns_of(kind) == "`day` INT, `at` BIGINT, `here` TIMESTAMP_NTZ"
    value = reader_of(kind, kind)(encoded(kind, {"day": 1, "at": 2, "here": 3}))
    assert value == {"day": 1, "at": 2, "here": 3000}


RESOLVED = {
    "a field that is gone is skipped": (
        record(("a", "int"), ("b", {"type": "array", "items": "string"}), ("c", "int")),
        record(("c", "int")),
        {"a": 1, "b": ["x"], "c": 3},
        {"c": 3},
    ),
    "a field that came has its default": (
        record(("a", "int")),
        json.dumps({"type": "record", "name": "r", "fields": [
            {"name": "b", "type": ["null", "string"], "default": None},
            {"name": "c", "type": {"type": "array", "items": "int"}, "default": [1]}]}),
        {"a": 1},
        {"b": None, "c": [1]},
    ),
    "an alias": (
        record(("old", "int")),
        json.dumps({"type": "record", "name": "r", "fields": [
            {"name": "new", "type": "int", "aliases": ["old"]}]}),
        {"old": 1},
        {"new": 1},
    ),
    "numbers grow": (
        record(("a", "int"), ("b", "int"), ("c", "float")),
        record(("a", "long"), ("b", "double"), ("c", "double")),
        {"a": 1, "b": 2, "c": 0.5},
        {"a": 1, "b": 2.0, "c": 0.5},
    ),
    "texts and bytes": (
        record(("a", "string"), ("b", "bytes")),
        record(("a", "bytes"), ("b", "string")),
        {"a": "ä", "b": "b"},
        {"a": b"\xc3\xa4", "b": "b"},
    ),
    "a type becomes a union, and a union a type": (
        record(("a", "int"), ("b", ["null", "int"])),
        record(("a", ["null", "long"]), ("b", "int")),
        {"a": 1, "b": 2},
        {"a": 1, "b": 2},
    ),
    "a timestamp in another unit is the same time": (
        record(("a", logical("long", "timestamp-millis")), ("b", "long")),
        record(("a", logical("long", "timestamp-micros")),
               ("b", logical("long", "timestamp-millis"))),
        {"a": 5, "b": 7},
        {"a": 5000, "b": 7000},
    ),
    "a default is said without its logical type": (
        record(("a", "int")),
        json.dumps({"type": "record", "name": "r", "fields": [
            {"name": "b", "type": logical("bytes", "decimal", precision=4, scale=2),
             "default": "\u0001\u0000"},
            {"name": "c", "type": logical("long", "timestamp-millis"), "default": 1}]}),
        {"a": 1},
        {"b": Decimal("2.56"), "c": 1000},
    ),
    "a union of records that nobody asks for is skipped by their names": (
        record(("a", [{"type": "record", "name": "x", "fields": [{"name": "i", "type": "int"}]},
                      {"type": "record", "name": "y", "fields": [{"name": "j", "type": "int"}]}]),
               ("b", "int")),
        record(("b", "int")),
        {"a": {"j": 1}, "b": 2},
        {"b": 2},
    ),
    "a symbol that is gone has the enum's default": (
        record(("a", {"type": "enum", "name": "e", "symbols": ["A", "B"]})),
        record(("a", {"type": "enum", "name": "e", "symbols": ["A"], "default": "A"})),
        {"a": "B"},
        {"a": "A"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESOLVED)
def test_a_record_is_read_as_the_readers_schema_wants_it(name: str) -> None:
    written, wanted, value, read = RESOLVED[name]
    writer = parse_record(written)

    assert reader_of(writer, parse_record(wanted))(encoded(writer, value)) == read


def test_a_field_that_nobody_wrote_and_that_has_no_default_is_told() -> None:
    writer, reader = parse_record(record(("a", "int"))), parse_record(record(("b", "int")))

    with pytest.raises(AvroError, match="field `b` was not written and has no default"):
        reader_of(writer, reader)


def test_a_type_that_shrinks_is_told() -> None:
    writer, reader = parse_record(record(("a", "long"))), parse_record(record(("a", "int")))

    with pytest.raises(AvroError, match="field `a` was written as long, not int"):
        reader_of(writer, reader)


UNLIKE = {
    "days as milliseconds": (logical("int", "date"), logical("long", "timestamp-millis"),
                             "int date, not long timestamp-millis"),
    "nanoseconds as microseconds": (logical("long", "timestamp-nanos"),
                                    logical("long", "timestamp-micros"),
                                    "long timestamp-nanos, not long timestamp-micros"),
    "a local time as one of the world": (logical("long", "local-timestamp-millis"),
                                         logical("long", "timestamp-millis"),
                                         "long local-timestamp-millis, not long timestamp-millis"),
    "another scale": (logical("bytes", "decimal", precision=4, scale=1),
                      logical("bytes", "decimal", precision=4, scale=2),
                      "bytes decimal, not bytes decimal"),
    "a text as a decimal": ("string", logical("bytes", "decimal", precision=4, scale=2),
                            "string, not bytes decimal"),
    "a decimal as a text": (logical("bytes", "decimal", precision=4, scale=2), "string",
                            "bytes decimal, not string"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_what_would_be_another_value_is_told(name: str) -> None:
    written, wanted, expected = UNLIKE[name]
    writer, reader = parse_record(record(("a", written))), parse_record(record(("a", wanted)))

    with pytest.raises(AvroError) as caught:
        reader_of(writer, reader)

    assert str(caught.value) == f"field `a` was written as {expected}"


def test_a_branch_that_the_reader_does_not_take_is_told_where_a_record_has_it() -> None:
    writer = parse_record(record(("a", ["null", "int"])))
    read = reader_of(writer, parse_record(record(("a", "int"))))

    assert read(encoded(writer, {"a": 1})) == {"a": 1}
    with pytest.raises(AvroError, match="field `a` was written as null, not int"):
        read(encoded(writer, {"a": None}))


DAMAGED = {
    "rubbish behind": (b"\x36\x06foo!", "the record ends at byte 5 of 6"),
    "cut off": (b"\x36\x06fo", "field `b`: 3 bytes where 2 are left"),
    "nothing": (b"", "the bytes end within the record"),
    "no UTF-8": (b"\x36\x06\xff\xff\xff", "field `b`: not UTF-8 text"),
    "a length below 0": (b"\x36\x05foo", "field `b`: -3 bytes where 3 are left"),
    "a number without end": (b"\xff" * 30, "a number of more than 10 bytes"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_told_with_its_field(name: str) -> None:
    data, expected = DAMAGED[name]
    kind = parse_record(record(("a", "long"), ("b", "string")))

    with pytest.raises(AvroError) as caught:
        reader_of(kind, kind)(data)

    assert str(caught.value) == expected


ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
NOT_OF_THE_TYPE = {
    "a boolean of 7": ("boolean", "07", "field `a`: 0x07 is no boolean"),
    "an int of 33 bits": ("int", "8080808020", "field `a`: 4294967296 is no int"),
    "a branch below 0": (["null", "int"], "0102", "field `a`: no type -1 in a union of 2"),
    "a branch too many": (["null", "int"], "04", "field `a`: no type 2 in a union of 2"),
    "a symbol below 0": (ENUM, "01", "field `a`: no symbol -1 of 2"),
    "a time that no TIMESTAMP holds": (logical("long", "timestamp-millis"),
                                       "feffffffffffffffff01",
                                       f"field `a`: {2**63 - 1} ms are no TIMESTAMP"),
    "items without bytes": ({"type": "array", "items": "null"}, "8080808020",
                            "field `a`: 4294967296 items in a record of 5 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_OF_THE_TYPE)
def test_bytes_that_libraries_take_for_another_value_are_told(name: str) -> None:
    kind, data, expected = NOT_OF_THE_TYPE[name]
    whole = parse_record(record(("a", kind)))

    with pytest.raises(AvroError) as caught:
        reader_of(whole, whole)(bytes.fromhex(data))

    assert str(caught.value) == expected


@given(st.binary(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_told(data: bytes) -> None:
    kind = parse_record(ALL)
    read = reader_of(kind, kind)

    with contextlib.suppress(AvroError):
        read(data)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_record_that_is_cut_off_or_goes_on_is_never_taken(data: st.DataObject) -> None:
    kind = parse_record(ALL)
    whole = encoded(kind, VALUE)
    end = data.draw(st.integers(0, len(whole) - 1))

    for damaged in (whole[:end], whole + data.draw(st.binary(min_size=1, max_size=4))):
        with pytest.raises(AvroError):
            reader_of(kind, kind)(damaged)


@given(st.integers(-(2**63), 2**63 - 1), st.text(), st.floats(allow_nan=False))
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read(number: int, text: str, ratio: float) -> None:
    kind = parse_record(record(("a", "long"), ("b", "string"), ("c", "double")))
    value = {"a": number, "b": text, "c": ratio}

    assert reader_of(kind, kind)(encoded(kind, value)) == value


NO_SCHEMAS = {
    "no JSON": ("{", "not JSON: "),
    "no record": ('"int"', "expected a record, found int"),
    "a type that nothing is": (record(("a", "integer")), "no type `integer`"),
    "a field twice": (record(("a", "int"), ("a", "int")), "record `r` has field `a` twice"),
    "no fields": ('{"type": "record", "name": "r"}', "record `r` has no `fields`"),
    "itself": (record(("a", ["null", "r"])), "`r` contains itself"),
    "types without end": ("[" * 100_000, "types within types too deeply"),
    "aliases that are none": (
        '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int", "aliases": "b"}]}',
        "the aliases of field `a` are no list of names",
    ),
}


@pytest.mark.parametrize("name", NO_SCHEMAS)
def test_what_is_no_schema_is_told(name: str) -> None:
    text, expected = NO_SCHEMAS[name]

    with pytest.raises(SchemaError) as caught:
        parse_record(text)

    assert str(caught.value).startswith(expected)


def test_a_union_of_several_types_is_no_column() -> None:
    with pytest.raises(SchemaError, match="field `a` is a union of int, string"):
        columns_of(parse_record(record(("a", ["null", "int", "string"]))))


def test_a_record_without_fields_is_no_column() -> None:
    inner = {"type": "record", "name": "inner", "fields": []}

    for text in (record(), record(("a", inner))):
        with pytest.raises(SchemaError, match="has no field, so it is no column"):
            columns_of(parse_record(text))


def test_names_are_found_in_their_namespace() -> None:
    inner = {"type": "fixed", "name": "mac", "size": 2}
    text = record(("a", inner), ("b", "mac"), ("c", "n.mac"), namespace="n")

    assert [each.type.name for each in parse_record(text).fields] == ["n.mac"] * 3


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 2**31), ("int", "1"), ("boolean", 1), ("string", 1), ("long", True), ("double", "1"),
     ("float", 1e300), (logical("bytes", "decimal", precision=2, scale=1), "NaN"),
     (logical("bytes", "decimal", precision=2, scale=1), 1.25),
     (logical("fixed", "decimal", name="f", size=1, precision=2, scale=1), 99.5),
     (logical("fixed", "uuid", name="u", size=16), "me"), (logical("int", "date"), "today")],
)  # fmt: skip
def test_a_value_of_another_type_is_not_written(kind: Any, value: object) -> None:
    with pytest.raises(UnfitError):
        encoded(parse(json.dumps(kind)), value)


def test_a_field_that_a_record_leaves_out_has_its_default_null_or_is_missing() -> None:
    amount = {"name": "b", "default": "\u0019",
              "type": logical("bytes", "decimal", precision=4, scale=1)}  # fmt: skip
    fields = [{"name": "a", "type": ["null", "int"]}, amount]
    kind = parse_record(json.dumps({"type": "record", "name": "r", "fields": fields}))

    assert reader_of(kind, kind)(encoded(kind, {})) == {"a": None, "b": Decimal("2.5")}
    with pytest.raises(UnfitError, match="field `a` is missing"):
        encoded(parse_record(record(("a", "int"))), {})


def test_a_decimal_of_too_many_digits_is_told() -> None:
    """The bytes may have more than the schema's precision, which no DECIMAL of SQL holds."""
    kind = parse_record(record(("a", logical("bytes", "decimal", precision=2, scale=1))))

    with pytest.raises(AvroError, match="field `a`: more than 2 digits"):
        reader_of(kind, kind)(bytes([4]) + struct.pack(">h", 1000))


def of_connect(scale: int = 0, **more: Any) -> Any:
    """Connect's Decimal as its Avro converter writes it, without a known precision."""
    return logical("bytes", "decimal", precision=64, scale=scale, **more)


UNSIGNED_MAX = 2**64 - 1
LONGEST = 10**38 - 1


@pytest.mark.parametrize("value", [0, 2**63, UNSIGNED_MAX, -UNSIGNED_MAX, LONGEST, -LONGEST])
def test_a_decimal_of_unknown_digits_is_the_longest_decimal_exactly(value: int) -> None:
    kind = parse_record(record(("a", of_connect())))

    read = reader_of(kind, kind)(encoded(kind, {"a": value}))

    assert columns_of(kind) == "`a` DECIMAL(38,0)"
    assert pa.array([read], arrow_of(kind)).to_pylist() == [{"a": Decimal(value)}]


@pytest.mark.parametrize(
    ("digits", "value"), [(38, LONGEST + 1), (20, 10**20), (20, -(10**20)), (38, 2**400)]
)
def test_a_number_beyond_its_decimal_is_a_bad_record(digits: int, value: int) -> None:
    writer = parse_record(record(("a", of_connect())))
    reader = parse_record(record(("a", logical("bytes", "decimal", precision=digits))))
    data = value.to_bytes(60, "big", signed=True)
    written = bytes([2 * len(data)]) + data

    with pytest.raises(AvroError) as caught:
        reader_of(writer, reader)(written)

    assert str(caught.value) == f"field `a`: more than {digits} digits"


def test_an_unsigned_number_fits_a_decimal_of_20_digits() -> None:
    writer = parse_record(record(("a", of_connect())))
    reader = parse_record(record(("a", logical("bytes", "decimal", precision=20))))

    assert reader_of(writer, reader)(encoded(writer, {"a": UNSIGNED_MAX})) == {"a": UNSIGNED_MAX}


def test_a_decimal_of_unknown_digits_and_another_scale_does_not_match() -> None:
    """It was read as if it had the reader's scale: a hundred times as much."""
    writer = parse_record(record(("a", of_connect(scale=2))))
    reader = parse_record(record(("a", logical("bytes", "decimal", precision=38))))

    with pytest.raises(AvroError, match="was written as bytes decimal, not bytes decimal"):
        reader_of(writer, reader)
