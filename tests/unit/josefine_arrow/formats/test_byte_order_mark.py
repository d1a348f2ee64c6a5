"""Byte order marks: which are removed, and which name another encoding."""

from __future__ import annotations

import pytest

from josefine_arrow.formats.byte_order_mark import NOT_UTF8, reason, without_mark
from josefine_arrow.formats.json.array_elements import ElementsError, elements_of


def test_one_mark_of_utf_8_is_removed() -> None:
    assert without_mark("\ufeff\ufeff[]".encode()) == "\ufeff[]".encode()
    assert without_mark(b"[]") == b"[]"
    assert reason("\ufeff[]".encode()) is None


@pytest.mark.parametrize("mark", ["<", ">"])
@pytest.mark.parametrize(("codec", "name"), [("utf-16", "UTF-16"), ("utf-32", "UTF-32")])
def test_another_encoding_is_named_in_either_byte_order(codec: str, name: str, mark: str) -> None:
    encoding = f"{codec}-{'le' if mark == '<' else 'be'}"

    why = reason("\ufeff[]".encode(encoding))

    assert why == f"{name} text: it begins with that byte order mark, expected UTF-8"


def test_bytes_without_a_mark_have_the_same_reason_in_and_out_of_arrays() -> None:
    with pytest.raises(ElementsError) as caught:
        elements_of(b"[\xff]")

    assert str(caught.value) == NOT_UTF8
