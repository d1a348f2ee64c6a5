"""Splitter of a JSON array into the texts of its elements.

Only the ends of the elements are found here: what an element is worth, its own decoder decides. So
no digit of a number and no key of an object is lost on the way.

Source: RFC 8259.
"""

from __future__ import annotations

from typing import Any

from josefine_arrow.formats.byte_order_mark import EncodingError, text_of
from josefine_arrow.formats.json.grammar import DECODER, space


class ElementsError(ValueError):
    """Why a text is not a JSON array; the reason of a dead letter."""


def elements_of(data: bytes) -> list[bytes]:
    """The text of each element of an array. Raises ElementsError."""
    try:
        text = text_of(data)
    except EncodingError as error:
        raise ElementsError(str(error)) from error
    try:
        found, end = _scanned(text)
    except RecursionError as error:
        raise ElementsError("JSON that is nested too deeply") from error
    except ValueError as error:
        raise ElementsError("not JSON") from error
    if space(text, end) != len(text):
        raise ElementsError("not JSON")
    if found is None:
        raise ElementsError("JSON, but not an array")
    return [each.encode() for each in found]


def _scanned(text: str) -> tuple[list[str] | None, int]:
    """(the elements, None if the value is not an array; its end). Raises ValueError."""
    at = space(text, 0)
    if text[at : at + 1] != "[":
        return None, _end_of_value(text, at)
    found: list[str] = []
    at = space(text, at + 1)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        end = _end_of_value(text, at)
        found.append(text[at:end])
        end = space(text, end)
        after = text[end : end + 1]
        if after == "]":
            return found, end + 1
        if after != ",":
            raise ValueError("no comma after an element")
        at = space(text, end + 1)


def _end_of_value(text: str, at: int) -> int:
    value: tuple[Any, int] = DECODER.raw_decode(text, at)
    return value[1]
