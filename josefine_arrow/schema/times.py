"""Parsers of ISO 8601 dates and times: the whole text, no clock, nothing dropped.

A date is `YYYY-MM-DD`. A time has at most six decimal places of a second (more if they are zeros);
without a zone it is local. Sources: RFC 3339; the zone names are those of IANA's database.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")

_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})0*)?)?)?)?"
    r"(?: ?(Z|[+-][0-9]{2}(?::?[0-9]{2}){0,2}|[A-Za-z][A-Za-z0-9_/+-]*))?"
)
"""A date, then perhaps a time and a zone."""

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{2}):?([0-9]{2})?:?([0-9]{2})?")

_EPOCH = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The calendar repeats after these; Python's dates have no year 0."""
_OFFSET_MAX = 18 * 3600
_SECOND = 1_000_000


class NoSuchTimeError(ValueError):
    """The message states why a well-formed text is no time."""


def days_of(text: str) -> int | None:
    """Days since 1970-01-01 of a `YYYY-MM-DD`; None for any other text."""
    found = _DATE.fullmatch(text)
    return None if found is None else _days(*map(int, found.groups()))


def _days(year: int, month: int, day: int) -> int | None:
    cycles = 0 if year > 0 else 1
    try:
        ordinal = date(year + cycles * _CYCLE_YEARS, month, day).toordinal()
    except ValueError:
        return None
    return ordinal - cycles * _CYCLE_DAYS - _EPOCH


def local_micros_of(text: str) -> int | None:
    """Microseconds since 1970-01-01 00:00 of a time without a zone; None for any other text."""
    found = _parts(text)
    return None if found is None or found[1] else found[0]


def micros_of(text: str, zone: str) -> int | None:
    """Microseconds since 1970 in UTC; None if the text is no time. `zone` is that of a text without
    one. A local time that occurs twice is the first one.

    Raises NoSuchTimeError: the zone does not exist, or the time does not exist in it.
    """
    found = _parts(text)
    if found is None:
        return None
    local, own = found
    return local - _SECOND * _offset(local, own or zone)


def fixed_offset(zone: str) -> int | None:
    """The seconds by which a zone is always ahead of UTC; None if that depends on the time."""
    try:
        return _fixed(zone)
    except NoSuchTimeError:
        return None


def is_zone(name: str) -> bool:
    """Whether texts can be read in this time zone."""
    try:
        return _fixed(name) is not None or bool(_zone(name))
    except NoSuchTimeError:
        return False


def _parts(text: str) -> tuple[int, str] | None:
    """(microseconds without regard to the zone, the zone's text)."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    day, hour, minute, second, fraction, zone = found.groups()
    days = days_of(day)
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = int(fraction.ljust(6, "0")) if fraction else 0
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return total * _SECOND + micros, zone or ""


def _offset(local: int, zone: str) -> int:
    """Seconds by which this zone is ahead of UTC at this local time."""
    fixed = _fixed(zone)
    if fixed is not None:
        return fixed
    # In a year that Python's datetime has with room on both sides. The rules repeat with the
    # calendar, and before 1800 there is only each zone's local mean time.
    seconds = local // _SECOND
    year = 1970 + seconds // 31_556_952
    shift = _CYCLE_YEARS if year < 2 else -_CYCLE_YEARS if year > 9997 else 0
    shifted = seconds + (shift // _CYCLE_YEARS) * _CYCLE_DAYS * 86_400
    info = _zone(zone)
    naive = datetime(1970, 1, 1) + timedelta(seconds=shifted)
    ahead = naive.replace(tzinfo=info).utcoffset()
    assert ahead is not None
    back = (naive - ahead).replace(tzinfo=UTC).astimezone(info).replace(tzinfo=None)
    if back != naive:
        raise NoSuchTimeError(f"does not exist in {zone}: its clocks are set forward")
    return int(ahead.total_seconds())


@lru_cache(maxsize=1024)
def _fixed(zone: str) -> int | None:
    """The offset of a zone without rules, in seconds. Raises NoSuchTimeError."""
    if zone in ("Z", "UTC", "GMT", "UT", "Etc/UTC", "Etc/GMT"):
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    sign, hours, minutes, seconds = found.groups()
    size = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    if size > _OFFSET_MAX or int(minutes or 0) > 59 or int(seconds or 0) > 59:
        raise NoSuchTimeError(f"has an offset that no zone has: {zone}")
    return -size if sign == "-" else size


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    if name not in available_timezones():
        raise NoSuchTimeError(f"has a zone that does not exist: {name}")
    return ZoneInfo(name)
