"""Records of several types in one topic: which one is read, and what becomes of the others."""

from __future__ import annotations

import json

import pytest

from josefine_arrow.formats.avro.decoder import Decoder
from josefine_arrow.formats.avro.schema import SchemaError, parse, parse_record
from josefine_arrow.formats.avro.writer import encoded
from josefine_arrow.formats.confluent.framing import framed
from josefine_arrow.formats.confluent.schema_references import Schema
from josefine_arrow.formats.protobuf.decoder import Decoder as MessageDecoder
from tests.unit.josefine_arrow.formats.protobuf.test_decoder import ORDER as MESSAGE
from tests.unit.josefine_arrow.formats.protobuf.test_decoder import SCHEMA, registered


def record(name, *fields):
    listed = [
        {"name": field, "type": ["null", "long"], "default": None} if field == "more" else
        {"name": field, "type": "long"} for field in fields
    ]  # fmt: skip
    return {"type": "record", "name": f"com.shop.{name}", "fields": listed}


ORDER, REFUND, VISIT = record("Order", "id"), record("Refund", "id", "more"), record("Visit", "at")
TYPES = json.dumps([ORDER, REFUND, "null"])
REGISTERED = {1: json.dumps(ORDER), 2: json.dumps(REFUND), 3: TYPES, 4: json.dumps(VISIT)}
ONLY_ORDERS = "com.shop.Order"


def written(number):
    return Schema(REGISTERED[number])


def sent(number, value):
    return framed(number, encoded(parse(REGISTERED[number]), value))


def in_union(index, name):
    return bytes([2 * index]) + encoded(parse_record(TYPES, f"com.shop.{name}"), {"id": 7})


REFUNDED = "a com.shop.Refund, expected a com.shop.Order"


def test_records_of_another_name_are_bad_and_the_reason_names_it():
    """RecordNameStrategy and TopicRecordNameStrategy: a schema of its own for each type."""
    decode = Decoder(REGISTERED[1], written, record_type=ONLY_ORDERS)

    read = [decode(sent(1, {"id": 7})), decode(sent(2, {"id": 7})), decode(sent(4, {"at": 7}))]

    assert read == [
        ({"id": 7}, None), (None, REFUNDED), (None, "a com.shop.Visit, expected a com.shop.Order"),
    ]  # fmt: skip


def test_names_do_not_count_where_the_file_asks_for_no_type():
    assert Decoder(REGISTERED[1], written)(sent(2, {"id": 7})) == ({"id": 7}, None)


def test_skipped_records_have_neither_a_value_nor_a_reason():
    decode = Decoder(REGISTERED[1], written, record_type=ONLY_ORDERS, skips=True)

    assert decode(sent(2, {"id": 7})) == (None, None)
    assert decode(sent(1, {"id": 7})) == ({"id": 7}, None)
    assert decode(b"x")[1] == "begins with 0x78, expected 0x00 and a schema's number"


@pytest.mark.parametrize("is_framed", [False, True])
def test_a_branch_of_a_union_is_read_by_its_name(is_framed):
    decode = Decoder(TYPES, written if is_framed else None, record_type="com.shop.Refund")
    records = [in_union(1, "Refund"), in_union(0, "Order"), b"\x04", b"\x06"]
    records = [framed(3, each) if is_framed else each for each in records]

    read = [decode(each) for each in records]

    assert read == [
        ({"id": 7, "more": None}, None),
        (None, "a com.shop.Order, expected a com.shop.Refund"),
        (None, "a null, expected a com.shop.Refund"),
        (None, "the record: no type 3 in a union of 3"),
    ]


def test_a_wanted_type_that_does_not_match_is_bad_and_not_skipped():
    """In the branch of a union, and alone."""
    older = json.dumps([{**ORDER, "fields": []}, REFUND])
    of = {1: Schema(json.dumps({**ORDER, "fields": []})), 3: Schema(older)}
    decode = Decoder(REGISTERED[1], lambda n: of[n], record_type=ONLY_ORDERS, skips=True)

    lacks = "field `id` was not written and has no default"
    assert decode(framed(3, b"\0")) == (None, lacks)
    assert decode(framed(1, b"")) == (None, f"schema 1: {lacks}")


def test_the_records_of_a_schema_are_found_by_their_full_names():
    assert parse_record(TYPES, "com.shop.Refund").name == "com.shop.Refund"
    with pytest.raises(SchemaError) as caught:
        parse_record(TYPES, "Order")

    assert str(caught.value) == (
        "it declares no record `Order`; its records: com.shop.Order, com.shop.Refund"
    )


def test_other_messages_of_protobuf_are_skipped_by_their_indexes():
    decode = MessageDecoder(SCHEMA, MESSAGE, lambda number: registered(), skips=True)

    assert decode(framed(7, b"\x04\x00\x00\x08\x05")) == (None, None)
    assert decode(framed(7, b"\x00\x08\x05"))[0]["id"] == 5
    assert decode(framed(7, b"\x02\x04\x08\x05"))[1] == "schema 7: has no message 2"
