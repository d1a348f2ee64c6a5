"""Schemas that refer to those of other subjects: which are asked for, and what stops that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from josefine_arrow.formats.avro import decoder as avro
from josefine_arrow.formats.avro.decoder import Decoder, decoder_of
from josefine_arrow.formats.avro.schema import parse
from josefine_arrow.formats.avro.writer import encoded
from josefine_arrow.formats.confluent import schema_registry_http
from josefine_arrow.formats.confluent.framing import framed
from josefine_arrow.formats.confluent.schema_references import (
    DEPTH_MAX,
    REFERENCED_MAX,
    NoSchemaError,
    Reference,
    Registered,
    Schema,
    references_in,
    resolved,
)
from tests.support.schema_registry import Said, serving


def record(name: str, *fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [*fields], **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


SPACE = {"namespace": "com.shop"}
SYMBOLS = {"type": "enum", "name": "Currency", "symbols": ["EUR", "USD"]}
CURRENCY = json.dumps(SYMBOLS | SPACE)
AMOUNT = field("amount", "long")
MONEY = json.dumps(record("Money", AMOUNT, field("currency", "com.shop.Currency"), **SPACE))
ORDER = json.dumps(
    record(
        "Order",
        field("id", "int"),
        field("price", "Money"),
        field("paid_in", ["null", "com.shop.Currency"], default=None),
        **SPACE,
    )
)
READER = json.dumps(
    record(
        "Order",
        field("id", "int"),
        field("price", record("Money", AMOUNT, field("currency", SYMBOLS))),
    )
)


def refers(name: str, subject: str, version: int = 1) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": version}


def asked_of(subjects: Mapping[tuple[str, int], Registered]) -> tuple[list[str], Any]:
    asked: list[str] = []

    def look(reference: Reference) -> Registered:
        asked.append(f"{reference.subject} {reference.version}")
        found = subjects.get((reference.subject, reference.version))
        if found is None:
            raise NoSchemaError("the registry does not know it")
        return found

    return asked, look


def registered(text: str, *references: tuple[str, str, int]) -> Registered:
    return Registered(text, tuple(Reference(*each) for each in references))


def test_references_are_followed_once_each_and_come_before_what_needs_them() -> None:
    subjects = {
        ("money", 3): registered("m", ("c", "currency", 1)),
        ("currency", 1): registered("c"),
    }
    asked, look = asked_of(subjects)

    found = resolved(7, registered("o", ("m", "money", 3), ("c", "currency", 1)), look)

    assert found == Schema("o", (("c", "c"), ("m", "m")))
    assert asked == ["money 3", "currency 1"]


def test_a_reference_is_asked_for_in_the_version_that_the_schema_names() -> None:
    asked, look = asked_of({("money", 1): registered("old"), ("money", 2): registered("new")})

    assert resolved(7, registered("o", ("m", "money", 1)), look).referenced == (("m", "old"),)
    assert asked == ["money 1"]


def test_a_missing_reference_is_one_error_with_the_way_to_it() -> None:
    _, look = asked_of({("money", 1): registered("m", ("c", "currency", 2))})

    with pytest.raises(NoSchemaError) as caught:
        resolved(7, registered("o", ("m", "money", 1)), look)

    assert str(caught.value) == (
        "schema 7 refers to `m` (subject money, version 1) -> `c` (subject currency, version 2): "
        "the registry does not know it"
    )


def test_a_cycle_of_references_ends_with_an_error() -> None:
    subjects = {("a", 1): registered("a", ("b", "b", 1)), ("b", 1): registered("b", ("a", "a", 1))}
    asked, look = asked_of(subjects)

    with pytest.raises(NoSchemaError, match=r"-> `a` \(subject a, version 1\): a cycle"):
        resolved(7, registered("o", ("a", "a", 1)), look)

    assert asked == ["a 1", "b 1"]


def test_a_chain_of_references_has_a_greatest_depth() -> None:
    chain = {
        (f"s{n}", 1): registered("", (f"s{n + 1}", f"s{n + 1}", 1)) for n in range(DEPTH_MAX + 9)
    }
    asked, look = asked_of(chain)

    with pytest.raises(NoSchemaError, match=f"nested deeper than {DEPTH_MAX}"):
        resolved(7, registered("o", ("s0", "s0", 1)), look)

    assert len(asked) == DEPTH_MAX


def test_a_schema_refers_to_a_bounded_number_of_others() -> None:
    many = [(f"s{n}", f"s{n}", 1) for n in range(REFERENCED_MAX + 1)]
    asked, look = asked_of({(name, 1): registered("") for name, _, _ in many})

    with pytest.raises(NoSchemaError, match=f"refers to more than {REFERENCED_MAX} others"):
        resolved(7, registered("o", *many), look)

    assert len(asked) == REFERENCED_MAX


@pytest.mark.parametrize(
    "said",
    ["money", [1], [{"name": "m"}], [refers("m", "money") | {"version": "1"}],
     [refers("m", "money") | {"version": True}]],
)  # fmt: skip
def test_malformed_references_are_none(said: Any) -> None:
    assert references_in(said) is None


def test_no_references_are_an_empty_list_or_nothing() -> None:
    assert references_in(None) == references_in([]) == ()


CURRENCY_SUBJECT = {"com.shop:currency/value/versions/1": CURRENCY}
MONEY_SUBJECT: dict[str, Said] = {
    "money-value/versions/2": {
        "schema": MONEY,
        "references": [refers("com.shop.Currency", "com.shop:currency/value")],
    }
}
REGISTERED: dict[int, Said] = {
    1: {
        "schema": ORDER,
        "references": [
            refers("com.shop.Money", "money-value", 2),
            refers("com.shop.Currency", "com.shop:currency/value"),
        ],
    }
}


def order() -> bytes:
    writer = parse(ORDER, (("com.shop.Currency", CURRENCY), ("com.shop.Money", MONEY)))
    return framed(1, encoded(writer, {"id": 1, "price": {"amount": 5, "currency": "USD"}}))


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry_http, "_registries", {})
    monkeypatch.setattr(avro, "_decoders", {})


def test_avro_records_are_read_by_types_of_other_subjects() -> None:
    with serving(REGISTERED, subjects=CURRENCY_SUBJECT | MONEY_SUBJECT) as server:
        decode = decoder_of(READER, server.url())
        found = [decode(order()) for _ in range(2)]

    assert found == [({"id": 1, "price": {"amount": 5, "currency": "USD"}}, None)] * 2
    assert [path for path, _ in server.seen] == [
        "/api/schemas/ids/1",
        "/api/subjects/money-value/versions/2",
        "/api/subjects/com.shop%3Acurrency%2Fvalue/versions/1",
    ]


def test_records_whose_schema_lacks_a_reference_have_that_reason() -> None:
    with serving(REGISTERED, subjects=MONEY_SUBJECT) as server:
        value, why = decoder_of(READER, server.url())(order())

    assert value is None
    assert why == (
        "schema 1 refers to `com.shop.Money` (subject money-value, version 2) -> "
        "`com.shop.Currency` (subject com.shop:currency/value, version 1): "
        "the registry does not know it"
    )


def test_a_reference_that_is_no_avro_is_named_in_the_reason() -> None:
    decode = Decoder(READER, lambda number: Schema(ORDER, (("com.shop.Money", "{"),)))

    assert decode(order())[1].startswith("schema 1: its reference `com.shop.Money`: not JSON: ")
