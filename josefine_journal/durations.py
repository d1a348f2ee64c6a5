"""Durations in kafka-journal's format: `1 day` (Scala's FiniteDuration), when read also a number of
milliseconds.

The largest unit without a fraction is written: `24 hours` becomes `1 day`, which is equal in Scala.
Nanoseconds are rounded to whole microseconds.
"""

import re
from datetime import timedelta

from josefine_journal.errors import JournalError

_UNITS: dict[str, tuple[timedelta, tuple[str, ...]]] = {
    "day": (timedelta(days=1), ("d", "day", "days")),
    "hour": (timedelta(hours=1), ("h", "hr", "hrs", "hour", "hours")),
    "minute": (timedelta(minutes=1), ("m", "min", "mins", "minute", "minutes")),
    "second": (timedelta(seconds=1), ("s", "sec", "secs", "second", "seconds")),
    "millisecond": (
        timedelta(milliseconds=1),
        ("ms", "milli", "millis", "millisecond", "milliseconds"),
    ),
    "microsecond": (
        timedelta(microseconds=1),
        ("µs", "micro", "micros", "microsecond", "microseconds"),
    ),
}
_NANOSECONDS = frozenset({"ns", "nano", "nanos", "nanosecond", "nanoseconds"})
_BY_WORD = {word: unit for unit, words in _UNITS.values() for word in words}
_TEXT = re.compile(r"\s*(-?\d+)\s*([a-zµ]+)\s*")


def write_duration(duration: timedelta) -> str:
    """`1 day`, `90 minutes`."""
    for name, (unit, _) in _UNITS.items():
        if duration % unit == timedelta():
            count = duration // unit
            return f"{count} {name}" if count == 1 else f"{count} {name}s"
    raise AssertionError("every timedelta is a whole number of microseconds")


def read_duration(value: object) -> timedelta:
    """The reverse, or milliseconds as a number. Raises JournalError."""
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return timedelta(milliseconds=value)
        match = _TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is not None:
            count, word = int(match[1]), match[2]
            if word in _NANOSECONDS:
                return timedelta(microseconds=round(count / 1_000))
            if word in _BY_WORD:
                return count * _BY_WORD[word]
    except OverflowError as error:
        raise JournalError(f"duration {value!r} is too long") from error
    raise JournalError(f"{value!r} is not a duration such as '1 day' or a number of milliseconds")
