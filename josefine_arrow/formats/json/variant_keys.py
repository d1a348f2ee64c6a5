"""Keys that an object inside of a VARIANT has twice, which Spark's variant cannot hold.

Spark's parser refuses such a value as if it were no JSON, without the key. So a text of which it
makes no variant is looked through here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Where a type has VARIANT: itself, the fields of a struct, or the items of an array or map."""

    is_variant: bool = False
    fields: Mapping[str, Shape] = field(default_factory=dict)
    items: Shape | None = None


class _Object(list[tuple[str, Any]]):
    """The pairs of an object, also those of the same key."""


def _nothing(text: str) -> None:
    """In place of a number: Python would spend seconds on one of a million digits."""


_PAIRS = json.JSONDecoder(object_pairs_hook=_Object, parse_int=_nothing, parse_float=_nothing)


def why_unreadable(data: bytes, shape: Shape) -> str | None:
    """Why a text of which Spark makes no variant is bad. None: no key is given twice inside of a
    VARIANT, so the columns are read as usual."""
    try:
        value = _PAIRS.decode(data.decode("utf-8"))
    except UnicodeDecodeError:
        return "not UTF-8 text"
    except ValueError:
        return "not JSON"
    except RecursionError:
        return "JSON that is nested too deeply"
    twice = next(_twice(value, shape, ""), None)
    return None if twice is None else f"does not fit the schema: key {twice} twice"


def _twice(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """The paths of repeated keys in the VARIANT parts of a value."""
    if shape.is_variant:
        yield from _repeated(value, path)
    elif isinstance(value, _Object):
        for name, each in value:
            below = shape.fields.get(name, shape.items)
            if below is not None:
                yield from _twice(each, below, _joined(path, name))
    elif isinstance(value, list) and shape.items is not None:
        for each in value:
            yield from _twice(each, shape.items, f"{path}[]")


def _repeated(value: Any, path: str) -> Iterator[str]:
    """Without recursion: an array in an array costs one byte a level."""
    left = [(value, path)]
    while left:
        value, path = left.pop()
        if isinstance(value, _Object):
            seen: set[str] = set()
            for name, each in value:
                if name in seen:
                    yield _joined(path, name)
                seen.add(name)
                left.append((each, _joined(path, name)))
        elif isinstance(value, list):
            left += [(each, f"{path}[]") for each in value]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
