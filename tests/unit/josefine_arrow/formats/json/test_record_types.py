"""Framed JSON of several types in one topic: which is read, and why the others are not."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from josefine_arrow.formats.confluent import schema_registry_http
from josefine_arrow.formats.confluent.framing import OFFLINE, OWN, framed
from josefine_arrow.formats.confluent.json_schema_title import RecordType
from josefine_arrow.formats.confluent.schema_registry import RegistryError
from josefine_arrow.formats.json import record_types
from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.json.record_types import (
    OtherTypeError,
    TypeFilter,
    skipping,
    type_filter_of,
    verdict_on,
)
from josefine_arrow.formats.json.value_reader import ObjectReader
from josefine_arrow.formats.value_by_value import one_by_one
from tests.support.schema_registry import Said, serving

KIND = pa.struct([("id", pa.int64())])
READ = ObjectReader(KIND, JsonOptions()).read


def of_json(schema: Any, *references: tuple[str, str]) -> Said:
    listed = [{"name": name, "subject": subject, "version": 1} for name, subject in references]
    return {"schemaType": "JSON", "schema": json.dumps(schema), "references": listed}


SCHEMAS: dict[int, Said] = {
    1: of_json({"title": "Order", "properties": {"m": {"$ref": "m.json"}}}, ("m.json", "gone")),
    2: of_json({"title": "Refund"}),
    3: of_json({"$ref": "order.json"}, ("order.json", "orders")),
    4: of_json({"$ref": "order.json"}, ("order.json", "gone")),
    5: of_json({"oneOf": [{"$ref": "order.json"}, {"title": "Refund"}]}, ("order.json", "orders")),
    6: of_json({"type": "object"}),
    7: of_json({"type": "array"}),
    8: "{}",
}
SUBJECTS: dict[str, Said] = {"orders/versions/1": of_json({"title": "Order"})}
VALUE = b'{"id": 1}'


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry_http, "_registries", {})
    monkeypatch.setattr(record_types, "_filters", {})
    monkeypatch.setattr("josefine_arrow.formats.confluent.schema_registry.PAUSE_S", 0)


def reasons(skips: bool) -> tuple[dict[int, Any], list[str]]:
    with serving(SCHEMAS, subjects=SUBJECTS) as server:
        server.subjects_of = {6: ("Order",), 7: ("Order", "Visit")}
        read = type_filter_of("Order", server.url(), skips=skips)
        found = {number: read(framed(number, VALUE)) for number in (*SCHEMAS, 99)}
        assert read(framed(3, VALUE)) == found[3]
    return found, [path.removeprefix("/api") for path, _ in server.seen]


GOOD = (VALUE, None)
BAD = {
    4: "schema 4 refers to `order.json` (subject gone, version 1): the registry does not know it",
    5: "schema 5 is a union of Order, Refund: a record does not name which of them it is",
    7: "schema 7 has several subjects (Order, Visit) and no title",
    8: "schema 8: of type AVRO, not JSON",
    99: "schema 99: the registry does not know it",
}


@pytest.mark.parametrize("skips", [False, True])
def test_records_are_of_the_type_that_their_schemas_title_or_subject_names(skips: bool) -> None:
    found, _ = reasons(skips)

    assert [number for number, each in found.items() if each == GOOD] == [1, 3, 6]
    other = None if skips else "a Refund, expected a Order"
    assert {number: why for number, (_, why) in found.items() if found[number] != GOOD} == {
        2: other, **BAD
    }  # fmt: skip


def test_only_what_may_hold_the_title_is_requested_each_once() -> None:
    _, seen = reasons(skips=False)

    assert seen.count("/schemas/ids/3") == 1
    assert seen.count("/subjects/orders/versions/1") == 2  # of schemas 3 and 5
    assert [path for path in seen if path.startswith("/schemas/ids/1")] == ["/schemas/ids/1"]
    assert [path for path in seen if path.endswith("/versions")] == [
        "/schemas/ids/6/versions", "/schemas/ids/7/versions",
    ]  # fmt: skip
    # A second look at an unknown reference, and none at those of schema 1, which has a title.
    assert seen.count("/subjects/gone/versions/1") == 2


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (RecordType("Order", ("Refund",)), None),
        (RecordType("Event", ("Refund",)), "a Event, expected a Order"),
        (RecordType("", ("Refund", "Visit")), "a Refund, Visit, expected a Order"),
        (RecordType(subjects=("Refund",)), "a Refund, expected a Order"),
    ],
)
def test_a_schema_of_another_name_is_of_another_type(found: RecordType, why: str | None) -> None:
    verdict = verdict_on(1, found, "Order")

    assert verdict is None if why is None else isinstance(verdict, OtherTypeError)
    assert why is None or str(verdict) == why


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (RecordType(), "schema 1 has neither a title nor a subject"),
        (RecordType("Event", ("Order", "Visit")),
         "schema 1 is a union of Order, Visit: a record does not name which of them it is"),
    ],
)  # fmt: skip
def test_a_record_whose_type_cannot_be_known_is_never_skipped(found: RecordType, why: str) -> None:
    read = TypeFilter("Order", lambda _: found, skips=True)

    assert read(framed(1, VALUE)) == (None, why)


def test_a_column_is_decoded_where_the_type_is_the_wanted_one() -> None:
    types = {1: RecordType("Order"), 2: RecordType("Refund")}
    read = TypeFilter("Order", types.__getitem__, skips=True)
    values = [framed(1, VALUE), framed(2, b"no JSON"), framed(1, b"no JSON"), None, VALUE]

    found, why = read.column(lambda column: one_by_one(column, READ, KIND))(
        pa.array(values, pa.binary())
    )

    assert found.to_pylist() == [{"id": 1}, None, None, None, None]
    assert why.to_pylist() == [
        None, None, "not JSON", None, "begins with 0x7b, expected 0x00 and a schema's number",
    ]  # fmt: skip
    one = skipping(READ, read)
    assert [one(each) for each in values if each] == [
        (value, reason)
        for given, value, reason in zip(values, found.to_pylist(), why.to_pylist(), strict=True)
        if given
    ]


def test_a_registry_that_does_not_answer_makes_no_bad_record() -> None:
    with serving(SCHEMAS) as server:
        address = server.url()
    with pytest.raises(RegistryError, match="cannot be reached"):
        type_filter_of("Order", address)(framed(1, VALUE))


def test_a_files_own_records_are_of_the_wanted_type() -> None:
    read = type_filter_of("Order", OWN)

    assert read(framed(OFFLINE, VALUE)) == GOOD
    assert read(framed(3, VALUE)) == (None, "schema 3: records of the file itself have 0")
    assert read(None) == (None, None)
