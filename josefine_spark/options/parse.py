"""The parser of option texts: it checks names against a table and converts values. Raises
OptionError with one sentence.

Rules: literal tables list the options that exist and those that are accepted without effect; names
are compared case-insensitively, as in Spark (which passes them in lower case: messages use the
table's spelling); a name is suggested only if it is really similar. Pure.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from josefine_broker.base import durations
from josefine_spark.base.errors import OptionError

E = TypeVar("E", bound=Enum)

NEAR = 0.8
"""Similarity from which a name is suggested: `linger.ms` is not a misspelt `client.id`."""

PREFIX = "kafka."

_UNIT_MS = {**durations.UNIT_MS, "min": 60_000, "": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionTable:
    """The options of one direction. A name in `ignored` that ends with * is a prefix."""

    known: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    """Name → what to do instead."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Name → why it has no effect here."""


class OptionText:
    """The given options under their lower-case names, with a typed getter per kind of value."""

    def __init__(self, given: Mapping[str, str], table: OptionTable) -> None:
        names = {name.lower(): name for name in table.known}
        refused = {name.lower(): (name, why) for name, why in table.refused.items()}
        self.without_effect: list[str] = []
        """One clause for each option that is accepted without effect, never with its value."""
        for key in given:
            low = key.lower()
            if low in refused:
                name, why = refused[low]
                raise OptionError(f"option {name} is not supported: {why}")
            if low in names:
                continue
            reason = _ignored(low, table.ignored)
            if reason is None:
                raise OptionError(_unknown(key, {**names, **_lower(table.ignored)}))
            self.without_effect.append(f"{key} ({reason})")
        self._values = {key.lower(): str(value) for key, value in given.items()}

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str, default: str) -> str:
        return self._values.get(name.lower(), default).strip()

    def take(self, *prefixes: str) -> dict[str, str]:
        """Every option with one of these prefixes, without `kafka.`; they now have an effect."""
        taken = {name: text for name, text in self._values.items() if name.startswith(prefixes)}
        self.without_effect = [
            clause for clause in self.without_effect if not clause.lower().startswith(prefixes)
        ]
        return {name.removeprefix(PREFIX): text.strip() for name, text in taken.items()}

    def only(self, where: str, *names: str) -> None:
        for name in names:
            if self.has(name):
                raise OptionError(f"option {name} is for {where} only")

    def integer(self, name: str, minimum: int) -> int | None:
        if not self.has(name):
            return None
        text = self.text(name, "")
        if not (text.isascii() and text.isdigit()) or int(text) < minimum:
            raise OptionError(f"{name}: expected a whole number from {minimum}, got {text!r}")
        return int(text)

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise OptionError(f"{name}: expected true or false, got {text!r}")
        return text == "true"

    def choice(self, name: str, default: E) -> E:
        text = self.text(name, str(default.value))
        for member in type(default):
            if str(member.value).lower() == text.lower():
                return member
        words = " or ".join(str(member.value) for member in type(default))
        raise OptionError(f"{name}: expected {words}, got {text!r}")

    def size_bytes(self, name: str) -> int | None:
        if not self.has(name):
            return None
        text = self.text(name, "")
        size = size_bytes(text)
        if not size:
            raise OptionError(f"{name}: expected a size such as 64m or 1048576, got {text!r}")
        return size

    def duration_ms(self, name: str, default_ms: int) -> int:
        if not self.has(name):
            return default_ms
        text = self.text(name, "")
        parsed_ms = duration_ms(text)
        if parsed_ms is None:
            raise OptionError(f"{name}: expected a duration such as 30s or 15m, got {text!r}")
        return parsed_ms


def size_bytes(text: str) -> int | None:
    """`1048576`, `64k`, `64m`, `2g` (powers of 1024, optionally with `b` or `ib`), else None."""
    match = re.fullmatch(r"(\d{1,15})\s*(?:([kmgt])(?:i?b)?|b)?", text.strip().lower())
    if match is None:
        return None
    return int(match[1]) * 1024 ** " kmgt".index(match[2] or " ")


def duration_ms(text: str) -> int | None:
    """`30s`, `15m` or `15 min`, `2h`, `1d`, `500ms`; a bare number is milliseconds, as in Spark.
    None when it is not a valid duration."""
    close = re.sub(r"(?<=[0-9])\s+(?=[a-z])", "", text.lower())
    return durations.duration_ms(close, _UNIT_MS)


def _lower(names: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): name for name in names if not name.endswith("*")}


def _ignored(low: str, ignored: Mapping[str, str]) -> str | None:
    for name, why in ignored.items():
        if low == name.lower() or (name.endswith("*") and low.startswith(name[:-1])):
            return why
    return None


def _unknown(key: str, names: Mapping[str, str]) -> str:
    """The message for an unknown option. Similarity is computed without the common `kafka.`."""
    bare = {low.removeprefix(PREFIX): name for low, name in names.items()}
    near = difflib.get_close_matches(key.lower().removeprefix(PREFIX), bare, n=1, cutoff=NEAR)
    if near:
        return f"unknown option {key!r}: did you mean {bare[near[0]]}?"
    if key.lower().startswith(PREFIX):
        return (
            f"unknown option {key!r}: this source is not a Java client, so the list of kafka.* "
            "options is closed (see docs/reference/spark.md)"
        )
    return f"unknown option {key!r}"
