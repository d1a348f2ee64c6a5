"""JSON values that keep their text where a schema asks for it: in a STRING, and in a VARIANT."""

from __future__ import annotations

from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import pyarrow as pa

from josefine_arrow.formats.json.grammar import DECODER, object_of, space


class Raw(str):
    """The text of a value as it was written, where the schema asks for it."""

    __slots__ = ()


def parse_raw(text: str, kind: pa.DataType) -> Any:
    """The value of a text that `grammar.parse` accepts, with a Raw for each array or object where
    the type has a string, and for every value where it has JSON."""
    value, _ = _value(text, space(text, 0), kind)
    return value


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
    return object_of(pairs), at + 1


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
