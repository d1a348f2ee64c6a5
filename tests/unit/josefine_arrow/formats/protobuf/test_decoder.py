"""Messages of Protobuf: their columns, what is taken, the reason for what is not."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from josefine_arrow.formats.confluent.framing import OWN, framed
from josefine_arrow.formats.confluent.schema_references import NoSchemaError
from josefine_arrow.formats.confluent.schema_registry import (
    PROTOBUF,
    Answer,
    Registry,
    RegistryError,
    address_of,
    schema_in,
)
from josefine_arrow.formats.protobuf.decoder import (
    Decoder,
    MessageError,
    arrow_of,
    decoder_of,
    encoded,
)
from josefine_arrow.formats.protobuf.descriptors import SchemaError, columns_of, message_of, type_of
from pipelines.base.errors import ConfigError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.exactly_once.decode_fingerprint import judgement
from pipelines.model.plan import compile_plan
from tests.unit.pipelines.config.test_validate import GOOD

FIELD = descriptor_pb2.FieldDescriptorProto
ORDER = "shop.Order"


def descriptors(change=None, *, with_imports=True, syntax="proto3") -> bytes:
    """What protoc --include_imports --descriptor_set_out writes of an order."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax=syntax)
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    kind = order.enum_type.add(name="Kind")
    for number, name in enumerate(("UNKNOWN", "SALE")):
        kind.value.add(name=name, number=number)
    line = order.nested_type.add(name="Line")
    field(line, "sku", 1, FIELD.TYPE_STRING)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    field(entry, "key", 1, FIELD.TYPE_INT32)
    field(entry, "value", 2, FIELD.TYPE_INT64)
    field(order, "id", 1, FIELD.TYPE_INT64)
    field(order, "name", 2, FIELD.TYPE_STRING)
    field(order, "kind", 3, FIELD.TYPE_ENUM, ".shop.Order.Kind")
    field(order, "lines", 4, FIELD.TYPE_MESSAGE, ".shop.Order.Line", many=True)
    field(order, "counts", 5, FIELD.TYPE_MESSAGE, ".shop.Order.CountsEntry", many=True)
    field(order, "at", 6, FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    field(order, "big", 7, FIELD.TYPE_UINT64)
    field(order, "raw", 8, FIELD.TYPE_BYTES)
    field(order, "many", 9, FIELD.TYPE_UINT32)
    if change:
        change(file)
    imported = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(imported)
    files = [imported, file] if with_imports else [file]
    return descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()


def field(message, name, number, kind, type_name=None, *, many=False):
    label = FIELD.LABEL_REPEATED if many else FIELD.LABEL_OPTIONAL
    message.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)


SCHEMA = descriptors()
NOTHING = {
    "id": 0, "name": "", "kind": "UNKNOWN", "lines": [], "counts": [], "at": None,
    "big": Decimal(0), "raw": b"", "many": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def decode():
    return Decoder(SCHEMA, ORDER)


def test_a_message_is_a_struct_of_its_fields(decode):
    assert columns_of(decode.type) == (
        "`id` BIGINT, `name` STRING, `kind` STRING, `lines` ARRAY<STRUCT<`sku`: STRING>>, "
        "`counts` MAP<INT, BIGINT>, `at` TIMESTAMP, `big` DECIMAL(20,0), `raw` BINARY, "
        "`many` BIGINT"
    )


def test_values_come_as_arrow_takes_them(decode):
    said = {
        "id": "-5", "name": "a", "kind": "SALE", "lines": [{"sku": "x"}, {}],
        "counts": {"7": 70}, "at": "2026-01-02T03:04:05.678901Z", "big": 2**64 - 1,
        "raw": "AP8=", "many": 2**32 - 1,
    }  # fmt: skip
    value, why = decode(encoded(SCHEMA, ORDER, said))
    (row,) = pa.array([value], arrow_of(decode.type)).to_pylist()

    assert why is None
    assert row == {
        "id": -5, "name": "a", "kind": "SALE", "lines": [{"sku": "x"}, {"sku": ""}],
        "counts": [(7, 70)], "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "big": Decimal(2**64 - 1), "raw": b"\x00\xff", "many": 2**32 - 1,
    }  # fmt: skip


def test_what_is_not_there_has_its_default_or_is_null_where_a_message_says_so(decode):
    assert decode(b"") == (NOTHING, None)
    assert decode(None) == (None, None)


def test_a_time_before_1970_is_one(decode):
    value, _ = decode(b"\x32\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")

    assert value["at"] == -1_000_000


@pytest.mark.parametrize("seconds", [253_402_300_800, -62_135_596_801])
def test_a_time_that_no_calendar_has_is_a_bad_record(decode, seconds):
    message = message_of(SCHEMA, ORDER)()
    message.at.seconds = seconds

    assert decode(message.SerializeToString()) == (
        None, f"no time: {seconds} seconds and 0 nanoseconds",
    )  # fmt: skip


def test_a_newer_writer_adds_fields_and_names_of_enums(decode):
    assert decode(b"\x08\x05\x18\x09\xa0\x06\x01") == (NOTHING | {"id": 5, "kind": "9"}, None)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff", "no shop.Order: "),
        (b"hello world", "no shop.Order: "),
        (b"\x08\x05\x12\x05a", "no shop.Order: "),
        (b"\x12\x01\xff", "no shop.Order: "),
        (b"\x0a\x01a", "field `id` of shop.Order has another type or value"),
        (b"\x22\x02\x08\x01", "field `sku` of shop.Order.Line has another type or value"),
        (b"\x32\x02\x10\xff", "no shop.Order: "),
        (b"\x32\x06\x10\x80\x94\xeb\xdc\x03", "no time: 0 seconds and 1000000000 nanoseconds"),
    ],
)
def test_a_bad_record_has_its_reason(decode, data, why):
    value, found = decode(data)

    assert value is None
    assert found.startswith(why)


OLD = descriptors(syntax="proto2")
GOOD_BYTES = encoded(
    SCHEMA,
    ORDER,
    {"id": 5, "name": "name", "kind": "SALE", "lines": [{"sku": "x"}], "counts": {"7": 70},
     "at": "2026-01-02T03:04:05Z", "big": 7, "raw": "AP8=", "many": 3},
)  # fmt: skip


@given(
    schema=st.sampled_from([SCHEMA, OLD]),
    data=st.binary(max_size=60)
    | st.builds(
        lambda at, new: GOOD_BYTES[:at] + new + GOOD_BYTES[at + len(new) :],
        st.integers(0, len(GOOD_BYTES)),
        st.binary(max_size=3),
    ),
)
def test_any_bytes_are_a_value_for_arrow_or_a_bad_record(schema, data):
    decode = Decoder(schema, ORDER)
    value, why = decode(data)

    assert (value is None) == (why is not None)
    assert pa.array([value], arrow_of(decode.type)).null_count == (value is None)


def test_a_text_that_proto2_does_not_look_at_is_a_bad_record():
    assert Decoder(OLD, ORDER)(b"\x12\x01\xff") == (None, "a text is not UTF-8")


@given(
    st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
            "big": st.integers(0, 2**64 - 1),
            "many": st.integers(0, 2**32 - 1),
            "counts": st.dictionaries(st.integers(-9, 9), st.integers(-9, 9), max_size=3),
        }
    )
)
def test_what_was_written_is_read(said):
    text = {**said, "counts": {str(k): v for k, v in said["counts"].items()}}
    value, why = Decoder(SCHEMA, ORDER)(encoded(SCHEMA, ORDER, text))

    assert why is None
    assert {**value, "counts": dict(value["counts"])} == {**NOTHING, **said}


def test_a_required_field_that_is_not_there_is_told():
    def required(file):
        file.message_type[0].field[0].label = FIELD.LABEL_REQUIRED

    decode = Decoder(descriptors(required, syntax="proto2"), ORDER)

    value, why = decode(b"")
    assert value is None
    assert why in ("shop.Order without what it requires: id", f"no {ORDER}: id")


def itself(file):
    field(file.message_type[0], "more", 20, FIELD.TYPE_MESSAGE, ".shop.Order")


def empty(file):
    file.message_type.add(name="Nothing")
    field(file.message_type[0], "more", 20, FIELD.TYPE_MESSAGE, ".shop.Nothing")


@pytest.mark.parametrize(
    ("schema", "name", "why"),
    [
        (SCHEMA, "shop.Ordr", "no message `shop.Ordr`; it has: "),
        (SCHEMA, "", "no message ``; it has: "),
        (b"", ORDER, "expected what protoc --include_imports --descriptor_set_out writes"),
        (b"syntax = 'proto3';", ORDER, "no descriptors (Error parsing"),
        (descriptors(with_imports=False), ORDER, "google/protobuf/timestamp.proto"),
        (descriptors(itself), ORDER, "message `shop.Order` contains itself"),
        (descriptors(empty), ORDER, "message `shop.Nothing` has no fields, and makes no column"),
    ],
)
def test_a_file_that_makes_no_columns_is_refused(schema, name, why):
    with pytest.raises(SchemaError) as refused:
        type_of(message_of(schema, name).DESCRIPTOR)

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_record_of_the_file_that_does_not_fit_is_told():
    with pytest.raises(MessageError, match=r'no shop\.Order: .*"ids"'):
        encoded(SCHEMA, ORDER, {"ids": 1})


def text_of(tmp_path, schema=SCHEMA, name=ORDER):
    (tmp_path / "order.desc").write_bytes(schema)
    how = f"format: protobuf, schema: order.desc, message: {name}"
    return GOOD.replace('format: json, schema: "id INT"', how)


def pipeline_of(tmp_path, *what):
    return validate(load(text_of(tmp_path, *what), f"{tmp_path}/f.yaml", {}))


def test_the_file_names_descriptors_and_message(tmp_path):
    source = pipeline_of(tmp_path).sources["raw"]

    assert source.decode is not None
    assert (source.decode.descriptors, source.decode.message) == (SCHEMA, ORDER)
    assert source.decode.schema.text.startswith("`id` BIGINT, ")
    with pytest.raises(ConfigError, match=r"order.desc: no message `Order`; it has: google.+shop"):
        pipeline_of(tmp_path, SCHEMA, "Order")


def test_other_descriptors_are_another_judgement(tmp_path):
    def renamed(file):
        file.message_type[0].enum_type[0].value[1].name = "SOLD"

    one, other = (pipeline_of(tmp_path, each) for each in (SCHEMA, descriptors(renamed)))

    plans = [compile_plan(each).sources["raw"] for each in (one, other)]
    assert judgement(plans[0]) != judgement(plans[1])


def test_json_of_the_library_is_what_a_file_may_say_of_a_record():
    message = message_of(SCHEMA, ORDER).FromString(encoded(SCHEMA, ORDER, {"id": 1, "kind": 1}))

    assert json_format.MessageToDict(message) == {"id": "1", "kind": "SALE"}


def registered(schema=SCHEMA):
    """The file of the order, as a registry tells it."""
    file = descriptor_pb2.FileDescriptorSet.FromString(schema).file[-1]
    return base64.b64encode(file.SerializeToString()).decode()


def reading_framed(texts):
    def text_by(number):
        if number not in texts:
            raise NoSchemaError(f"schema {number}: the registry does not know it")
        return texts[number]

    return Decoder(SCHEMA, ORDER, text_by)


FIVE = b"\x08\x05"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (FIVE, "begins with 0x08, expected 0x00 and a schema's number"),
        (framed(7, b""), "ends within the indexes of its message"),
        (framed(7, b"\x02"), "ends within the indexes of its message"),
        (framed(7, b"\xff\xff\xff\xff\xff\xff"), "ends within the indexes of its message"),
        (framed(7, b"\x01" + FIVE), "names a message by -1 indexes"),
        (framed(7, b"\x02\x01" + FIVE), "names message -1 of its schema"),
        (framed(7, b"\x02\x04" + FIVE), "schema 7: has no message 2"),
        (framed(7, b"\x04\x00\x00" + FIVE), "a shop.Order.Line, expected a shop.Order"),
        (framed(8, b"\x00" + FIVE), "schema 8: no descriptors of Protobuf"),
        (framed(9, b"\x00" + FIVE), "schema 9: the registry does not know it"),
        (framed(7, b"\x00\xff"), "no shop.Order: Wire format was corrupt"),
    ],
)
def test_a_frame_that_is_none_or_of_another_message_is_a_bad_record(data, why):
    assert reading_framed({7: registered(), 8: "no base 64"})(data) == (None, why)


@pytest.mark.parametrize("which", [b"\x00", b"\x02\x00"])
def test_a_framed_message_is_read_by_the_columns_of_the_file(which):
    value, why = reading_framed({7: registered()})(framed(7, which + FIVE))

    assert (value, why) == (NOTHING | {"id": 5}, None)


def test_the_registry_is_asked_once_for_descriptors_and_its_troubles_are_no_bad_records():
    asked = []

    def ask(address, path):
        asked.append(path)
        imported = {"name": "money.proto", "subject": "money", "version": 1}
        said = {"schemaType": "PROTOBUF", "schema": registered(), "references": [imported]}
        return Answer(200 if "7" in path else 500, json.dumps(said).encode())

    registry = Registry(address_of("http://r"), ask, lambda _: None, lambda: 0.0, PROTOBUF)
    decode = Decoder(SCHEMA, ORDER, registry.text)

    assert [decode(framed(7, b"\x00" + FIVE))[1] for _ in range(3)] == [None] * 3
    assert asked == ["/schemas/ids/7?format=serialized"]
    with pytest.raises(RegistryError, match="answers 500 to schema 8"):
        decode(framed(8, b"\x00" + FIVE))


def test_an_avro_schema_is_none_of_protobuf():
    answer = Answer(200, b'{"schema": "{}"}')

    with pytest.raises(NoSchemaError, match="of type AVRO, not PROTOBUF"):
        schema_in(answer, address_of("http://r"), "schema 7", PROTOBUF)


def test_records_of_the_file_are_framed_where_the_source_says_so(tmp_path):
    text = text_of(tmp_path).replace(
        "message: shop.Order", "message: shop.Order, registry: http://r"
    )
    text = text.replace("type: josefine\n    bootstrap: localhost:9092\n    topics: [orders]",
                        "type: memory\n    records: [ { value: { id: 5 } } ]")  # fmt: skip
    source = validate(load(text, f"{tmp_path}/f.yaml", {})).sources["raw"]

    assert source.local is not None
    (record,) = source.local.records
    assert decoder_of(SCHEMA, ORDER, OWN)(record.value) == (NOTHING | {"id": 5}, None)
    assert decoder_of(SCHEMA, ORDER, OWN)(framed(1, b"\x00"))[1] == (
        "schema 1: records of the file itself have 0"
    )
