"""Places in a topic as people write them."""

from __future__ import annotations

import pytest

from josefine_broker.client.io_blocking import EARLIEST, LATEST
from josefine_cli.base.errors import UsageError
from josefine_cli.kafka.offset_spec import AtOffset, AtTime, Place, is_after, parse_place

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", AtTime(EARLIEST)),
        ("Latest", AtTime(LATEST)),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("-5", AtOffset(-5)),
        ("-10m", AtTime(NOW_MS - 600_000)),
        ("-90s", AtTime(NOW_MS - 90_000)),
        ("-2h", AtTime(NOW_MS - 7_200_000)),
        ("-1d", AtTime(NOW_MS - 86_400_000)),
        ("-9999w", AtTime(0)),
        ("2013-01-01", AtTime(1_356_998_400_000)),
        ("2013-01-01T05:00:00Z", AtTime(1_357_016_400_000)),
        ("2013-01-01T05:00:00.25", AtTime(1_357_016_400_250)),
        ("2013-01-01T05:00:00-05:00", AtTime(1_357_034_400_000)),
    ],
)
def test_each_form_is_understood(text: str, place: Place) -> None:
    assert parse_place(text, "--from", NOW_MS) == place


@pytest.mark.parametrize("text", ["", "soon", "10m", "-10y", "--5", "1.5", "2013-13-01"])
def test_another_form_is_refused_naming_the_option_and_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"--to '.*' is not valid: expected earliest, latest"):
        parse_place(text, "--to", NOW_MS)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("latest", "earliest", True),
        ("-1m", "-10m", True),
        ("2013-01-02", "2013-01-01", True),
        ("7", "5", True),
        ("-3", "-5", True),
        ("latest", "-5", True),
        ("5", "5", False),
        ("5", "-3", False),
        ("-10m", "-1m", False),
        ("earliest", "2013-01-01", False),
        ("2013-01-01", "latest", False),
        ("2013-01-01", "5", False),
    ],
)
def test_a_place_is_after_another_where_that_can_be_known(
    first: str, last: str, expected: bool
) -> None:
    places = [parse_place(text, "--from", NOW_MS) for text in (first, last)]

    assert is_after(*places) is expected
