"""Type checks of decoded values against the declarations of their class.

Decoding JSON does not check types: a broker id that is text passes every comparison until something
sorts it, on every broker at once. A check is built once per type: a change may name ten thousand
partitions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

INT_MAX = 1 << 63
TEXT_CHARS_MAX = 32_767
"""The limit of a string in Kafka's protocol."""

_Check = Callable[[Any], bool]


def is_typed(value: object, hint: Any) -> bool:
    """Does the value match `hint`: an int, str, bool, UUID, None, a tuple, a mapping, a dataclass,
    a union?"""
    return _check_of(hint)(value)


@cache
def _check_of(hint: Any) -> _Check:
    if isinstance(hint, NewType):
        return _check_of(hint.__supertype__)
    if hint is int:
        return _is_int
    if hint is str:
        return _is_text
    if hint in (None, NoneType):
        return lambda value: value is None
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        checks = [_check_of(each) for each in get_args(hint)]
        return lambda value: any(check(value) for check in checks)
    if origin is tuple:
        return _tuple_check(get_args(hint))
    if origin is Mapping:
        key_is, value_is = map(_check_of, get_args(hint))
        return lambda value: (
            isinstance(value, Mapping)
            and all(map(key_is, value))
            and all(map(value_is, value.values()))
        )
    return _class_check(hint)


def _is_int(value: Any) -> bool:
    return type(value) is int and -INT_MAX <= value < INT_MAX


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= TEXT_CHARS_MAX and value.isprintable()


def _tuple_check(hints: tuple[Any, ...]) -> _Check:
    if len(hints) == 2 and hints[1] is ...:
        each_is = _check_of(hints[0])
        return lambda value: isinstance(value, tuple) and all(map(each_is, value))
    checks = [_check_of(each) for each in hints]
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(each) for check, each in zip(checks, value, strict=True))
    )


def _class_check(kind: type) -> _Check:
    """A dataclass or a NamedTuple with all its fields; any other class by itself."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        names = list(getattr(kind, "_fields", ()))
    hints = get_type_hints(kind) if names else {}
    checks = [(name, _check_of(hints[name])) for name in names]
    return lambda value: (
        isinstance(value, kind) and all(check(getattr(value, name)) for name, check in checks)
    )
