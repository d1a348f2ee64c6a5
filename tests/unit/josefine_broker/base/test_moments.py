"""Points in time as people write them."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.moments import moment_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.0015Z", 2),
        ("2013-01-01T05:00:00Z", 1_357_016_400_000),
        ("1969-12-31T23:59:59Z", -1_000),
    ],
)
def test_a_time_without_a_zone_is_in_utc(text: str, ms: int) -> None:
    assert moment_ms(text) == ms


def test_the_zone_of_the_machine_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert moment_ms("1970-01-01") == 0
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "yesterday", "2013-02-30", "2013-01-01T25:00", "1"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert moment_ms(text) is None


@given(st.integers(-(10**12), 10**13))
def test_a_time_that_is_written_is_read_back(ms: int) -> None:
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")

    assert moment_ms(text) == ms
