"""Splitter of a JSON array into the texts of its elements.

Only the ends of the elements are found here: what an element is worth, its own decoder decides. So
no digit of a number and no key of an object is lost on the way.

Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from josefine_arrow.formats.byte_order_mark import reason, without_mark

_BLANKS = re.compile(r"[ \t\n\r]*")


class ElementsError(ValueError):
    """Why a text is not a JSON array; the reason of a dead letter."""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _nothing(text: str) -> None:
    """In place of a number: Python would spend seconds on one of a million digits."""


_SCANNER = json.JSONDecoder(parse_int=_nothing, parse_float=_nothing, parse_constant=_refuse)


def elements_of(data: bytes) -> list[bytes]:
    """The text of each element of an array. Raises ElementsError."""
    if why := reason(data):
        raise ElementsError(why)
    try:
        text = without_mark(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ElementsError("not UTF-8 text") from error
    try:
        found, end = _scanned(text)
    except RecursionError as error:
        raise ElementsError("JSON that is nested too deeply") from error
    except ValueError as error:
        raise ElementsError("not JSON") from error
    if _after_blanks(text, end) != len(text):
        raise ElementsError("not JSON")
    if found is None:
        raise ElementsError("JSON, but not an array")
    return [each.encode() for each in found]


def _scanned(text: str) -> tuple[list[str] | None, int]:
    """(the elements, None if the value is not an array; its end). Raises ValueError."""
    at = _after_blanks(text, 0)
    if text[at : at + 1] != "[":
        return None, _end_of_value(text, at)
    found: list[str] = []
    at = _after_blanks(text, at + 1)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        end = _end_of_value(text, at)
        found.append(text[at:end])
        end = _after_blanks(text, end)
        after = text[end : end + 1]
        if after == "]":
            return found, end + 1
        if after != ",":
            raise ValueError("no comma after an element")
        at = _after_blanks(text, end + 1)


def _end_of_value(text: str, at: int) -> int:
    value: tuple[Any, int] = _SCANNER.raw_decode(text, at)
    return value[1]


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()
