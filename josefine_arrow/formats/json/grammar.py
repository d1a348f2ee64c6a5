"""JSON's grammar (RFC 8259), by Python's scanner without its leniency, numbers as their text.

Not accepted, unlike `json.loads`: NaN, Infinity, and nesting deeper than `DEPTH_MAX`. An object
that has a key twice is a `Repeated`, because it depends on the schema whether that key matters.
Light imports.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH_MAX = 500
"""Deeper, Python's recursive scanner might reach the interpreter's limit."""


class JsonError(ValueError):
    """The message is the reason for which a text is refused."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


class Repeated(dict[str, Any]):
    """An object with a key twice; `keys_twice` in the order of the text."""

    __slots__ = ("keys_twice",)
    keys_twice: tuple[str, ...]


def parse(text: str) -> Any:
    """The value of a JSON text: dict or Repeated, list, str, Number, bool or None.

    Raises JsonError.
    """
    if text.count("[") + text.count("{") > DEPTH_MAX and _depth(text) > DEPTH_MAX:
        raise JsonError(f"nested deeper than {DEPTH_MAX}")
    try:
        return DECODER.decode(text)
    except ValueError as error:
        raise JsonError("not JSON") from error


def repeated_key(value: Any) -> str | None:
    """The path to a key that some object of this value has twice, at any depth: `.a[].k`."""
    pending = [("", value)]
    while pending:
        path, each = pending.pop()
        if isinstance(each, Repeated):
            return f"{path}.{each.keys_twice[0]}"
        if isinstance(each, dict):
            pending.extend((f"{path}.{key}", below) for key, below in each.items())
        elif isinstance(each, list):
            pending.extend((f"{path}[]", below) for below in each)
    return None


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these members: a Repeated if a key is there twice."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated, seen, twice = Repeated(found), set[str](), []
    for key, _ in pairs:
        if key in seen:
            twice.append(key)
        seen.add(key)
    repeated.keys_twice = tuple(twice)
    return repeated


def _no_constant(text: str) -> Any:
    raise ValueError(text)


DECODER = json.JSONDecoder(
    object_pairs_hook=object_of,
    parse_int=Number,
    parse_float=Number,
    parse_constant=_no_constant,
)

_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{\]}]', re.DOTALL)
"""A string that does not end takes all the rest, so that no bytes make the search quadratic."""


def _depth(text: str) -> int:
    depth = deepest = 0
    for token in _TOKENS.findall(text):
        if token in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "]}":
            depth -= 1
    return deepest


_SPACE = re.compile(r"[ \t\n\r]*")


def space(text: str, at: int) -> int:
    """The position after the white space at `at`."""
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
