"""How JSON texts are read, and the named exceptions from the rule that a value is stored as it was
sent. Light imports."""

from collections.abc import Collection
from dataclasses import dataclass, field

ROUNDED, EPOCH_SECONDS, EPOCH_MILLIS, GROUPED = (
    "rounded_decimals",
    "epoch_seconds",
    "epoch_milliseconds",
    "grouped_digits",
)
ACCEPT = (ROUNDED, EPOCH_SECONDS, EPOCH_MILLIS, GROUPED)
"""A DECIMAL takes the nearest value of its scale (half up); a number in a TIMESTAMP counts from
1970, in one of two units; a text in a DECIMAL may have commas between thousands."""


def contradiction(names: Collection[str]) -> str:
    """Why these exceptions cannot be together; empty if they can."""
    if EPOCH_SECONDS in names and EPOCH_MILLIS in names:
        return f"a number is in {EPOCH_SECONDS} or in {EPOCH_MILLIS}, not in both"
    return ""


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """How texts are read. `time_zone`: that of a TIMESTAMP without one. `strict`: a key that only
    its letter case keeps from a column is refused. `accept`: a subset of `ACCEPT`."""

    time_zone: str = "UTC"
    strict: bool = False
    accept: frozenset[str] = field(default_factory=frozenset)
