"""How the text of a topic's configuration becomes a value, as Kafka reads it. ValueError says what
is wrong, in words that fit behind the name and the value."""

import re
from collections.abc import Callable

from josefine_broker.base.durations import duration_ms

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_UNITS = {"ms": " of milliseconds", "bytes": " of bytes"}
"""By the last part of a configuration's name."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,19})?")


def number(name: str, low: int, high: int) -> Callable[[str], int]:
    """Kafka's numbers are of milliseconds or bytes as their names say, and have no unit."""

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError(_no_number(name, text))
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return parse


def _no_number(name: str, text: str) -> str:
    unit = _UNITS.get(name.rpartition(".")[2], "")
    found = duration_ms(text) if unit == _UNITS["ms"] else None
    return f"must be a whole number{unit}" + ("" if found is None else f": {text} is {found}")


def ratio(text: str) -> float:
    """From 0 to 1."""
    if not _DECIMAL.fullmatch(text) or float(text) > 1:
        raise ValueError("must be a number from 0 to 1")
    return float(text)


def choice(*allowed: str, why: str = "") -> Callable[[str], str]:
    """One of these words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}" + (f": {why}" if why else ""))
        return text

    return parse


def flag(text: str) -> bool:
    """As Kafka reads booleans: whatever their case."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ValueError("must be true or false")
    return value


def off(why: str) -> Callable[[str], bool]:
    """A boolean that cannot be true."""

    def parse(text: str) -> bool:
        if flag(text):
            raise ValueError(f"must be false: {why}")
        return False

    return parse
