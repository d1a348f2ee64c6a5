"""Config values as text, read and printed as Kafka's ConfigDef does: types and validators.

Rules: a text is trimmed as by `String.trim` (everything up to the space character), then parsed as
by Java's parser of its type; a value is printed as in DescribeConfigs. A ValueError's message
continues a sentence that starts with the name and the value.
"""

import math
import re
from collections.abc import Callable
from enum import Enum

from josefine_broker.base.durations import duration_ms

LONG_MAX = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...]
Check = Callable[[Value], object]
"""A validator: raises ValueError for a value of the right type that is not allowed."""


class ConfigType(Enum):
    """Value types with their DescribeConfigs numbers (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


_TRIMMED = "".join(map(chr, range(0x21)))
_UNITS = {"ms": " of milliseconds", "bytes": " of bytes"}
"""Keyed by the last part of a config's name."""
_INTEGER = re.compile(r"[+-]?\d+")
"""Java accepts the decimal digits of every script; so does `\\d`."""
_BASIC_PLANE_END = "\uffff"
"""Java parses UTF-16 code units: it does not recognize a digit in a surrogate pair."""
_DECIMAL = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
)
_HEX_DECIMAL = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
)
_COMMA = re.compile(r"[ \t\n\v\f\r]*,[ \t\n\v\f\r]*")
_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


def read_value(kind: ConfigType, text: str, name: str = "") -> Value:
    """The value of a text. `name` determines the unit of a number in the error message."""
    text = text.strip(_TRIMMED)
    if kind is ConfigType.BOOLEAN:
        return flag(text)
    if kind is ConfigType.STRING:
        return text
    if kind is ConfigType.DOUBLE:
        return _double(text)
    if kind is ConfigType.LIST:
        return tuple(_COMMA.split(text)) if text else ()
    return _integer(text, _BITS[kind], name)


def printed(value: Value) -> str:
    """The text of a value in DescribeConfigs."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _printed_double(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def flag(text: str) -> bool:
    """A boolean, case-insensitive."""
    value = {"TRUE": True, "FALSE": False}.get(text.strip(_TRIMMED).upper())
    if value is None:
        raise ValueError("must be true or false")
    return value


def at_least(low: int) -> Check:
    """A number that is not below `low`."""

    def check(value: Value) -> None:
        assert isinstance(value, int | float)
        if value < low:
            raise ValueError(f"must be at least {low}")

    return check


def between(low: int, high: int) -> Check:
    """A number from `low` to `high`. NaN passes, as it does in Kafka: it is neither below nor
    above."""

    def check(value: Value) -> None:
        assert isinstance(value, int | float)
        if value < low or value > high:
            raise ValueError(f"must be from {low} to {high}")

    return check


def choice(*allowed: str) -> Check:
    """One of these words."""

    def check(value: Value) -> None:
        if value not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")

    return check


def choices(*allowed: str) -> Check:
    """A list of some of these words, or of none (KIP-1161)."""

    def check(value: Value) -> None:
        assert isinstance(value, tuple)
        if not set(value) <= set(allowed):
            raise ValueError(f"must be a list of {', '.join(allowed)}, or empty")

    return check


def anything(value: Value) -> None:
    """Every value of the type."""


_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def throttled_replicas(value: Value) -> None:
    """`*`, or a list of `partition:broker` (Kafka's ThrottledReplicaListValidator)."""
    assert isinstance(value, tuple)
    if "".join(value) != "*" and not all(map(_REPLICA.fullmatch, value)):
        raise ValueError("must be * or a list of partition:broker, as in 0:101,1:102")


def _integer(text: str, bits: int, name: str) -> int:
    """As `Integer.parseInt`, with the range of the type. Raises ValueError."""
    if not _INTEGER.fullmatch(text) or max(text) > _BASIC_PLANE_END:
        raise ValueError(_no_number(name, text))
    digits = text.lstrip("+-").lstrip("0") or "0"
    # Python refuses to parse thousands of digits; numbers that long are out of range anyway.
    value = int(digits) if len(digits) <= len(str(2**bits)) else 2**bits + 1
    value = -value if text.startswith("-") else value
    if not -(2**bits) <= value < 2**bits:
        raise ValueError(f"must be from {-(2**bits)} to {2**bits - 1}")
    return value


def _no_number(name: str, text: str) -> str:
    """With the unit; for a duration such as 7d, the number of milliseconds that was meant."""
    unit = _UNITS.get(name.rpartition(".")[2], "")
    found = duration_ms(text) if unit == _UNITS["ms"] else None
    return f"must be a whole number{unit}" + ("" if found is None else f": {text} is {found}")


def _double(text: str) -> float:
    """As `Double.parseDouble`: `0.5`, `.5`, `1E-4`, `0.5f`, `0x1p-1`, `NaN`, `Infinity`."""
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if not _HEX_DECIMAL.fullmatch(text):
        raise ValueError("must be a number, as in 0.5 or 1.0E-4")
    mantissa, _, exponent = text.lower().partition("p")
    try:
        return float.fromhex(f"{mantissa}p{exponent.rstrip('fd')}")
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _printed_double(value: float) -> str:
    """As `Double.toString` of Java 19 and later: the shortest digits that identify the number, at
    least two of them; with an exponent below 10^-3 and from 10^7 on."""
    if math.isnan(value) or math.isinf(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    # -0.0 too: Java prints its sign, as `repr` does.
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        # From 10^7 on Java has an exponent, where Python has one from 10^16 on.
        digits = len(repr(value).strip("-").replace(".", "").strip("0"))
        mantissa, _, exponent = f"{value:.{max(digits - 1, 1)}e}".partition("e")
    elif "." not in mantissa:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}E{int(exponent)}"
