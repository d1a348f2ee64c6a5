"""Templates of `consume --format`."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import printable
from josefine_cli.kafka.consume import parse_format
from josefine_cli.kafka.consume_records import OutputFormat
from josefine_cli.kafka.record_template import parse_template

TP = TopicPartition("orders", 2)
VALUE = '{"id": 7, "who": {"name": "ädà"}, "tags": ["a", null]}'.encode()
RECORD = Record(b"k\xff", VALUE, (("h", b"1"), ("h", b"2"), ("n", None)), 1_000, 5)


def line(template: str, record: Record = RECORD) -> bytes:
    return parse_template(template)(TP, record, lambda data: data or b"")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{topic}-{partition}@{offset}", b"orders-2@5"),
        ("{time} {timestamp}", b"1970-01-01T00:00:01.000Z 1000"),
        ("{key}", b"k\xff"),
        ("{value}", VALUE),
        ("{value.id}/{value.who.name}", "7/ädà".encode()),
        ("{value.who}", '{"name": "ädà"}'.encode()),
        ("{value.tags.0} {value.tags.1}", b"a null"),
        ("{value.absent} {value.tags.9} {value.id.x} {key.id}", b"- - - -"),
        ("{headers} {header.h} {header.no}", b"h=1,h=2,n= 1 -"),
        ("{size}", str(len(VALUE)).encode()),
        (r"a\tb\n\\{{x}}", b"a\tb\n\\{x}"),
        ("", b""),
    ],
)
def test_fields_are_filled_in(template: str, expected: bytes) -> None:
    assert line(template) == expected


def test_bytes_of_a_record_pass_what_protects_a_terminal_and_fields_of_values_too() -> None:
    record = RECORD._replace(value=b'{"a": "\\u001b[31m"}', key=b"\x1b")

    shown = parse_template("{key} {value.a}")(TP, record, lambda data: printable(data).encode())

    assert b"\x1b" not in shown


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{ofset}", "no field '{ofset}': did you mean '{offset}'?"),
        ("{zzz}", "no field '{zzz}': there are topic, partition,"),
        ("{value", "a '{' without its other half; '{{' is a brace"),
        ("x}", "a '}' without its other half"),
        ("csv", "expected value, key-value, json, full, or a template like"),
    ],
)
def test_a_wrong_format_is_one_sentence(template: str, words: str) -> None:
    with pytest.raises(UsageError) as wrong:
        parse_format(template)

    assert str(wrong.value).startswith(f"--format '{template}': {words}")


def test_the_names_of_formats_are_formats() -> None:
    assert [parse_format(each) for each in OutputFormat] == [*OutputFormat]
