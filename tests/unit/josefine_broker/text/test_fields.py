"""Fields of a line: one space between them, RFC 4180's quotes around one that holds spaces."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.text.errors import TextError
from josefine_broker.text.fields import split_fields
from tests.unit.josefine_broker.text.client import README_MESSAGE


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("", [""]),
        ("DISC", ["DISC"]),
        ("CRTP t 3", ["CRTP", "t", "3"]),
        ("CRTP t ", ["CRTP", "t", ""]),
        ("CRTP  t", ["CRTP", "", "t"]),
        (' "a b"', ["", "a b"]),
        ('"" ""', ["", ""]),
        ('"a""b" c', ['a"b', "c"]),
        ('PUBS t {"Key":"a"}', ["PUBS", "t", '{"Key":"a"}']),
        (
            f"PUBS t {README_MESSAGE}",
            ["PUBS", "t", '{"Header":"header","Key":"124","Body":"Hello World!"}'],
        ),
        ("PUBS é ü", ["PUBS", "é", "ü"]),
    ],
)
def test_line_is_split_at_single_spaces_outside_of_quotes(line: str, fields: list[str]) -> None:
    assert split_fields(line.encode()) == fields


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'PUBS "t', "Error, the quotes of field 2 are not closed"),
        (b'"', "Error, the quotes of field 1 are not closed"),
        (
            b'PUBS "a"b',
            "Error, field 2 continues after its closing quote: a field with spaces is put in double"
            " quotes, and its own are written twice",
        ),
        (b"PUBS \xff", "Error, the line is not UTF-8 at byte 5"),
    ],
)
def test_what_is_wrong_is_named(line: bytes, why: str) -> None:
    with pytest.raises(TextError) as caught:
        split_fields(line)

    assert str(caught.value) == why


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_quoted_fields_come_out_as_they_were(fields: list[str]) -> None:
    line = " ".join('"' + each.replace('"', '""') + '"' for each in fields)

    assert split_fields(line.encode()) == fields


@given(st.binary())
def test_no_line_does_more_than_be_refused(line: bytes) -> None:
    with suppress(TextError):
        assert len(split_fields(line)) >= 1
