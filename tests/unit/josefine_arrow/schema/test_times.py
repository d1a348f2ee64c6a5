"""A date or time is its whole text: what is not exactly one is None, or has a reason."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from josefine_arrow.schema.times import (
    NoSuchTimeError,
    days_of,
    fixed_offset,
    is_zone,
    local_micros_of,
    micros_of,
)

EPOCH = datetime(1970, 1, 1)
ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]


def micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)


@given(day=st.dates())
def test_a_date_is_its_iso_text(day: date) -> None:
    assert days_of(day.isoformat()) == (day - date(1970, 1, 1)).days


@given(moment=st.datetimes(), sep=st.sampled_from("T "), zeros=st.integers(0, 3))
def test_a_local_time_keeps_every_microsecond(moment: datetime, sep: str, zeros: int) -> None:
    text = moment.isoformat(sep, timespec="microseconds") + "0" * zeros

    assert local_micros_of(text) == micros(moment)
    assert local_micros_of(text + "Z") is None
    assert local_micros_of(text + "1") is None


@given(
    moment=st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),
    minutes=st.integers(-18 * 60, 18 * 60),
)
def test_an_offset_counts(moment: datetime, minutes: int) -> None:
    there = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))

    assert micros_of(there.isoformat(), "Asia/Tokyo") == micros(there.astimezone(UTC))


@given(moment=st.datetimes(datetime(2, 1, 1), datetime(9997, 12, 29)), zone=st.sampled_from(ZONES))
def test_a_time_without_a_zone_is_in_the_one_given(moment: datetime, zone: str) -> None:
    there = moment.replace(tzinfo=ZoneInfo(zone))
    exists = there.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == moment
    assume(exists)

    assert micros_of(moment.isoformat(), zone) == micros(there.astimezone(UTC))
    assert micros_of(f"{moment.isoformat()} {zone}", "UTC") == micros(there.astimezone(UTC))


def test_a_time_that_clocks_leave_out_is_none_and_one_that_comes_twice_is_the_first() -> None:
    with pytest.raises(NoSuchTimeError, match="does not exist in Europe/Berlin"):
        micros_of("2024-03-31 02:30:00", "Europe/Berlin")
    first = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    assert micros_of("2024-10-27 02:30", "Europe/Berlin") == micros(first)


def test_years_that_python_lacks_are_counted_by_the_calendar() -> None:
    assert days_of("0000-02-29") == days_of("0000-03-01") - 1
    assert days_of("0000-12-31") == days_of("0001-01-01") - 1
    before, after = (
        micros_of(f"{day} 00:00", "Europe/Berlin") for day in ("0000-12-31", "0001-01-01")
    )
    assert after - before == 86_400_000_000
    assert micros_of("9999-12-31 23:59:59.999999", "America/New_York") is not None


@pytest.mark.parametrize(
    "text",
    [
        "", "20240105", "2024-1-5", "2024-01-05 ", " 2024-01-05", "2024-02-30", "2023-02-29",
        "2024-13-01", "2024-00-01", "2024-01-00", "2024-01-05T", "12024-01-05", "-024-01-05",
        "２０24-01-05", "2024-01-05\n",
    ],
)  # fmt: skip
def test_no_other_text_is_a_date(text: str) -> None:
    assert days_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "10:15", "T10:15", "2024-01-05T24:00", "2024-01-05T10:60", "2024-01-05T10:15:60",
        "2024-01-05T10:15:30.", "2024-01-05T10:15:30.1234567", "2024-01-05T10:15:30,5",
        "2024-01-05t10:15", "2024-01-05  10:15", "2024-01-05T1:15", "2024-01-05T10:15 +1",
        "2024-01-05T10:15:30Z\n", "2024-02-30T10:15",
    ],
)  # fmt: skip
def test_no_other_text_is_a_time(text: str) -> None:
    assert micros_of(text, "UTC") is None


@pytest.mark.parametrize("zone", ["+18:01", "+00:60", "-19", "Nowhere/Town", "ZZ"])
def test_a_zone_that_does_not_exist_is_said(zone: str) -> None:
    with pytest.raises(NoSuchTimeError, match="has a"):
        micros_of(f"2024-01-05 10:15{'' if zone[0] in '+-' else ' '}{zone}", "UTC")
    assert not is_zone(zone)
    assert fixed_offset(zone) is None


def test_zones_are_fixed_or_have_rules() -> None:
    assert [fixed_offset(zone) for zone in ("Z", "Etc/UTC", "+01:30", "GMT-02:00")] == [
        0,
        0,
        5400,
        -7200,
    ]
    assert fixed_offset("Europe/Berlin") is None
    assert is_zone("Europe/Berlin")
