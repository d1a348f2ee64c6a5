"""The elements of a JSON array as texts, and what is not an array."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_arrow.formats.byte_order_mark import UTF_8
from josefine_arrow.formats.json.array_elements import ElementsError, elements_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a]}[{,"\\ é\U0001f600'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(",]a"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, max_size=5), st.sampled_from(["", " ", "\n\t\r "]), st.booleans())
def test_the_texts_of_the_elements_are_those_of_the_array(
    values: list[Any], blanks: str, ascii_only: bool
) -> None:
    texts = [json.dumps(value, ensure_ascii=ascii_only) for value in values]
    inside = f"{blanks},{blanks}".join(texts)

    assert elements_of(f"{blanks}[{blanks}{inside}{blanks}]{blanks}".encode()) == [
        text.encode() for text in texts
    ]


def test_no_digit_and_no_repeated_key_is_lost() -> None:
    number = "1" * 5000

    assert elements_of(f'[{{"a":1e400,"a":{number}}}, -0.10 ]'.encode()) == [
        f'{{"a":1e400,"a":{number}}}'.encode(),
        b"-0.10",
    ]


def test_a_byte_order_mark_of_utf_8_is_no_part_of_the_array() -> None:
    assert elements_of(UTF_8 + b"[1]") == [b"1"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"[", "not JSON"),
        (b"[1", "not JSON"),
        (b"[1,]", "not JSON"),
        (b"[,1]", "not JSON"),
        (b"[1 2]", "not JSON"),
        (b"[1] 2", "not JSON"),
        (b"[NaN]", "not JSON"),
        (b"['a']", "not JSON"),
        (b"\xa0[1]", "not UTF-8 text"),
        ("\u00a0[1]".encode(), "not JSON"),
        (b'{"a": [1]}', "JSON, but not an array"),
        (b"null", "JSON, but not an array"),
        (b'{"a": [1]} x', "not JSON"),
        (b"[" * 100_000, "JSON that is nested too deeply"),
        (
            "[1]".encode("utf-16"),
            "UTF-16 text: it begins with that byte order mark, expected UTF-8",
        ),
    ],
)
def test_a_text_that_is_no_array_has_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(ElementsError) as caught:
        elements_of(data)

    assert str(caught.value) == why
