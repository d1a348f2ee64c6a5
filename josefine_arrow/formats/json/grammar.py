"""JSON's grammar (RFC 8259), by Python's scanner without its leniency, numbers as their text.

Not accepted, unlike `json.loads`: NaN, Infinity, and nesting deeper than `DEPTH_MAX`. An object
that has a key twice is a `Repeated`, because it depends on the schema whether that key matters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import pyarrow as pa

DEPTH_MAX = 500
"""Deeper, Python's recursive scanner might reach the interpreter's limit."""


class JsonError(ValueError):
    """The message is the reason for which a text is refused."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


class Raw(str):
    """The text of a value as it was written, where the schema asks for it."""

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


def parse_raw(text: str, kind: pa.DataType) -> Any:
    """The same for a text that `parse` accepts, with a Raw for each array or object where the type
    has a string, and for every value where it has JSON."""
    value, _ = _value(text, space(text, 0), kind)
    return value


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


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
    object_pairs_hook=_object,
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


def _value(text: str, at: int, kind: pa.DataType | None) -> tuple[Any, int]:
    """(value, position after it) of the value that starts at `at`."""
    opening = text[at]
    if kind is not None:
        if opening == "{" and pa.types.is_struct(kind):
            return _members(text, at + 1, {each.name: each.type for each in kind})
        if opening == "{" and pa.types.is_map(kind):
            return _members(text, at + 1, _Every(kind.item_type))
        if opening == "[" and pa.types.is_list(kind):
            return _elements(text, at + 1, kind.value_type)
    value, end = DECODER.raw_decode(text, at)
    if value is None or kind is None:
        return value, end
    if is_json(kind) or (pa.types.is_string(kind) and opening in "[{"):
        return Raw(text[at:end]), end
    return value, end


def _members(text: str, at: int, kinds: Mapping[str, pa.DataType]) -> tuple[Any, int]:
    pairs: list[tuple[str, Any]] = []
    at = space(text, at)
    while text[at] != "}":
        at = space(text, at + 1) if text[at] == "," else at
        key, at = scanstring(text, at + 1, True)
        at = space(text, space(text, at) + 1)
        value, at = _value(text, at, kinds.get(key))
        pairs.append((key, value))
        at = space(text, at)
    return _object(pairs), at + 1


def _elements(text: str, at: int, kind: pa.DataType) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = space(text, at)
    while text[at] != "]":
        at = space(text, at + 1) if text[at] == "," else at
        value, at = _value(text, at, kind)
        found.append(value)
        at = space(text, at)
    return found, at + 1


class _Every(dict[str, pa.DataType]):
    """The types of a map's members: all the same."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__()
        self._kind = kind

    def get(self, key: str, default: Any = None) -> Any:
        return self._kind


def is_json(kind: pa.DataType) -> bool:
    """Whether a column takes any JSON value, as its text (Arrow's canonical type `arrow.json`)."""
    return isinstance(kind, pa.JsonType)
