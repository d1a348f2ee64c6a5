"""Framed values and the registry of their schemas: what is asked, once, and what stops a batch."""

from __future__ import annotations

import base64
import json

import pytest

from josefine_arrow.formats.avro import decoder as avro
from josefine_arrow.formats.avro.decoder import Decoder, decoder_of
from josefine_arrow.formats.avro.schema import parse_record
from josefine_arrow.formats.avro.writer import encoded
from josefine_arrow.formats.confluent import schema_registry_http
from josefine_arrow.formats.confluent.framing import OWN, FramingError, framed, split
from josefine_arrow.formats.confluent.schema_references import NoSchemaError, Schema
from josefine_arrow.formats.confluent.schema_registry import (
    ATTEMPTS,
    UNKNOWN_S,
    Address,
    Answer,
    Registry,
    RegistryAwayError,
    RegistryError,
    address_of,
)
from tests.support.ports import free_ports
from tests.support.schema_registry import serving

ADDRESS = Address("http://registry:8081", "user:secret")
UNKNOWN = Answer(404, b'{"error_code": 40403, "message": "Schema not found"}')


def schema(*fields: tuple[str, str]) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "r", "fields": listed})


OLD, NEW = schema(("id", "int")), schema(("id", "long"), ("more", "string"))


def test_a_frame_is_a_zero_four_bytes_and_the_data() -> None:
    assert framed(258, b"ab") == b"\x00\x00\x00\x01\x02ab"
    assert split(framed(258, b"ab")) == (258, b"ab")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "no bytes, expected a schema's number"),
        (b'{"id": 1}', "begins with 0x7b, expected 0x00 and a schema's number"),
        (b"\x00\x00\x00\x01", "ends within the schema's number: 4 of 5 bytes"),
    ],
)
def test_what_is_no_frame_is_told(data: bytes, expected: str) -> None:
    with pytest.raises(FramingError) as caught:
        split(data)

    assert str(caught.value) == expected


def test_records_of_two_schemas_become_one_and_each_schema_is_asked_for_once() -> None:
    asked: list[int] = []

    def written(number: int) -> Schema:
        asked.append(number)
        return Schema({1: OLD, 2: NEW}[number])

    decode = Decoder(OLD.replace("int", "long"), written)
    old = framed(1, encoded(parse_record(OLD), {"id": 1}))
    new = framed(2, encoded(parse_record(NEW), {"id": 2, "more": "x"}))

    read = [decode(each)[0] for each in (old, new, old, None)]
    assert read == [{"id": 1}, {"id": 2}, {"id": 1}, None]
    assert asked == [1, 2]


def test_a_schema_that_does_not_fit_is_the_reason_of_its_records_alone() -> None:
    decode = Decoder(NEW, lambda number: Schema({1: OLD, 2: NEW}[number]))

    value, why = decode(framed(1, encoded(parse_record(OLD), {"id": 1})))

    assert (value, why) == (None, "schema 1: field `more` was not written and has no default")
    assert decode(framed(2, encoded(parse_record(NEW), {"id": 2, "more": "x"})))[1] is None


class Desk:
    """A registry of which each question has its answers, the last one for ever; and a clock that
    only pauses move."""

    def __init__(self, **answers: Answer | OSError | list[Answer | OSError]) -> None:
        self.now_s = 0.0
        self.asked: list[int] = []
        self.pauses: list[float] = []
        self._answers = {
            int(name[1:]): list(said) if isinstance(said, list) else [said]
            for name, said in answers.items()
        }
        self.registry = Registry(ADDRESS, self._ask, self._pause, lambda: self.now_s)

    def _ask(self, registry: Address, path: str) -> Answer:
        number = int(path.removeprefix("/schemas/ids/"))
        self.asked.append(number)
        left = self._answers[number]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


def good(text: str) -> Answer:
    return Answer(200, json.dumps({"schema": text}).encode())


def test_a_schema_is_asked_for_once_and_what_may_pass_again() -> None:
    desk = Desk(_1=[OSError("refused"), Answer(503, b""), good(OLD)])

    assert [desk.registry.text(1) for _ in range(3)] == [OLD] * 3
    assert (desk.asked, desk.pauses) == ([1, 1, 1], [0.5, 1.0])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (OSError(111, "Connection refused"), "cannot be reached: Connection refused"),
        (TimeoutError("timed out"), "cannot be reached: timed out"),
        (Answer(500, b"<html>"), "answers 500 to schema 7"),
        (Answer(429, b""), "answers 429 to schema 7"),
    ],
)
def test_a_registry_that_is_away_stops_the_batch_without_its_password(
    answer: Answer | OSError, told: str
) -> None:
    desk = Desk(_7=answer)

    with pytest.raises(RegistryAwayError) as caught:
        desk.registry.text(7)

    assert str(caught.value) == f"the schema registry http://registry:8081 {told}"
    assert len(desk.asked) == ATTEMPTS


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(401, b""), "refuses schema 7 (401): see its user"),
        (Answer(403, b"{}"), "refuses schema 7 (403): see its user"),
        (Answer(404, b"<html>"),
         "answers 404 to schema 7, not as a registry does: see its address"),
        (Answer(302, b""), "answers 302 to schema 7, not as a registry does: see its address"),
        (Answer(200, b"[]"), "answers 200 to schema 7, not as a registry does: see its address"),
        (Answer(200, b'{"schema": 1}'),
         "answers 200 to schema 7, not as a registry does: see its address"),
        (Answer(200, b'{"schema": "", "references": [{"name": "a"}]}'),
         "answers 200 to schema 7, not as a registry does: see its address"),
    ],
)  # fmt: skip
def test_a_registry_that_is_none_stops_the_batch_at_once(answer: Answer, told: str) -> None:
    desk = Desk(_7=answer)

    with pytest.raises(RegistryError) as caught:
        desk.registry.text(7)

    assert str(caught.value) == f"the schema registry http://registry:8081 {told}"
    assert not isinstance(caught.value, RegistryAwayError)
    assert desk.asked == [7]


NO_SCHEMAS = {
    "unknown": (UNKNOWN, "the registry does not know it"),
    "another type": (Answer(200, b'{"schema": "", "schemaType": "PROTOBUF"}'),
                     "of type PROTOBUF, not AVRO"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_SCHEMAS)
def test_a_number_without_an_avro_schema_is_the_reason_of_its_records(name: str) -> None:
    answer, told = NO_SCHEMAS[name]
    decode = Decoder(OLD, Desk(_7=answer, _1=good(OLD)).registry.schema)

    assert decode(framed(7, b"")) == (None, f"schema 7: {told}")
    assert decode(framed(1, encoded(parse_record(OLD), {"id": 1}))) == ({"id": 1}, None)


def test_an_unknown_number_is_looked_for_twice_and_then_not_for_a_while() -> None:
    desk = Desk(_1=[UNKNOWN, good(OLD)], _2=[UNKNOWN, UNKNOWN, UNKNOWN, good(NEW)])

    assert desk.registry.text(1) == OLD  # the second one that answered had heard of it
    desk.now_s += UNKNOWN_S
    for _ in range(3):
        with pytest.raises(NoSchemaError):
            desk.registry.text(2)
    assert (desk.asked, desk.pauses) == ([1, 1, 2, 2], [0.5, 0.5])
    desk.now_s += UNKNOWN_S
    assert desk.registry.text(2) == NEW


def test_thousands_of_unknown_numbers_cost_one_pause() -> None:
    desk = Desk(**{f"_{number}": UNKNOWN for number in range(50)})

    for number in range(50):
        with pytest.raises(NoSchemaError):
            desk.registry.text(number)

    assert (desk.pauses, len(desk.asked)) == ([0.5], 51)


ADDRESSES = {
    "http://localhost:8081": Address("http://localhost:8081"),
    "https://us%40er:p/w@r+d=@host:1/api/": Address("https://host:1/api", "us@er:p/w@r+d="),
    "http://[::1]:8081/": Address("http://[::1]:8081"),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_the_user_stands_before_the_last_at_of_an_address(text: str) -> None:
    assert address_of(text) == ADDRESSES[text]
    assert "p/w" not in repr(address_of(text))


@pytest.mark.parametrize(
    "text",
    ["localhost", "localhost:8081", "ftp://a", "http://", "http://a:b", "http://a:99999",
     "http://a?b=c", "http://a#b", "http://a b", "http://u:p@", "http://a\nb"],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_a_password(text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - any of them, if it tells nothing
        address_of(text)

    assert "u:p" not in str(caught.value)


def test_a_registry_is_asked_once_in_a_process_with_the_user_of_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema_registry_http, "_registries", {})
    monkeypatch.setattr(avro, "_decoders", {})
    one = framed(1, encoded(parse_record(OLD), {"id": 1}))

    with serving({1: OLD}) as server:
        url = server.url("us%40er:pa/ss")
        for _ in range(2):
            decode = decoder_of(OLD, url)
            found = [decode(value) for value in (one, b"x", None, framed(2, b""))]

        assert found == [
            ({"id": 1}, None),
            (None, "begins with 0x78, expected 0x00 and a schema's number"),
            (None, None),
            (None, "schema 2: the registry does not know it"),
        ]
        token = base64.b64encode(b"us@er:pa/ss").decode()
        assert server.seen == [
            ("/api/schemas/ids/1", f"Basic {token}"),
            *[("/api/schemas/ids/2", f"Basic {token}")] * 2,
        ]


def test_a_redirect_is_not_followed_with_the_password() -> None:
    with serving({}, redirect_to="http://127.0.0.1:1/") as server:
        answer = schema_registry_http.ask(address_of(server.url("u:p")), "/schemas/ids/1")

    assert answer.status == 302


def test_where_nobody_listens_is_told() -> None:
    (port,) = free_ports(1)

    with pytest.raises(OSError, match="refused"):
        schema_registry_http.ask(Address(f"http://127.0.0.1:{port}"), "/schemas/ids/1")


def test_records_of_the_file_itself_have_its_schema() -> None:
    records = [framed(number, encoded(parse_record(OLD), {"id": 1})) for number in (0, 5)]

    assert [decoder_of(OLD, OWN)(record) for record in records] == [
        ({"id": 1}, None),
        (None, "schema 5: records of the file itself have 0"),
    ]
