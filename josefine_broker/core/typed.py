"""Whether a value decoded from elsewhere has the types that its class declares.

Decoding JSON gives what was written, not what was meant: a broker id that is text passes every
comparison until something sorts it, on every broker at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

INT_MAX = 1 << 63
TEXT_CHARS_MAX = 32_767
"""What Kafka's protocol carries in a string."""


def is_typed(value: object, hint: Any) -> bool:
    """Is it what `hint` says: an int, str, bool, UUID, None, a tuple, a mapping, a dataclass, a
    union?"""
    if hint is int:
        return type(value) is int and -INT_MAX <= value < INT_MAX
    if hint is str:
        return type(value) is str and len(value) <= TEXT_CHARS_MAX and value.isprintable()
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(is_typed(value, each) for each in get_args(hint))
    if origin is tuple:
        return isinstance(value, tuple) and _items_typed(value, get_args(hint))
    if origin is Mapping:
        keys, values = get_args(hint)
        return isinstance(value, Mapping) and all(
            is_typed(key, keys) and is_typed(each, values) for key, each in value.items()
        )
    if hint is type(None):
        return value is None
    if not isinstance(value, hint):
        return False
    return all(is_typed(getattr(value, name), each) for name, each in _fields(hint))


def _items_typed(value: tuple[object, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 2 and hints[1] is ...:
        return all(is_typed(each, hints[0]) for each in value)
    return len(value) == len(hints) and all(map(is_typed, value, hints))


@cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    """The declared fields of a dataclass or a NamedTuple; none of any other class."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        names = list(getattr(kind, "_fields", ()))
    hints = get_type_hints(kind) if names else {}
    return tuple((name, hints[name]) for name in names)
