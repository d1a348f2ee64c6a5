"""Durations as people write them: in the broker's files, in Spark's options, in pipelines."""

from __future__ import annotations

import pytest

from josefine_broker.base.durations import UNIT_MS, duration_ms
from josefine_spark.options import parse


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500), ("30s", 30_000), (" 5m ", 300_000), ("12h", 43_200_000),
        ("7d", 604_800_000), ("1w", 604_800_000), ("0s", 0),
        ("30", None), ("30 s", None), ("5min", None), ("1.5h", None), ("-1s", None), ("s", None),
        ("", None), ("5S", None), ("1s1s", None), ("\u0661s", None), ("9" * 21 + "s", None),
    ],
)  # fmt: skip
def test_a_duration_is_a_number_with_one_unit(text: str, ms: int | None) -> None:
    assert duration_ms(text) == ms


def test_who_knows_fewer_units_refuses_the_others() -> None:
    hours = {"h": UNIT_MS["h"]}

    assert duration_ms("2h", hours) == 7_200_000
    assert duration_ms("2d", hours) is None


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("30s", 30_000), ("15 min", 900_000), ("15min", 900_000), ("2 H", 7_200_000),
        ("1d", 86_400_000), ("1w", 604_800_000), (" 500 ", 500), ("7", 7),
        ("1 5s", None), ("5 x", None), ("1.5h", None), ("", None), ("min", None),
    ],
)  # fmt: skip
def test_an_option_of_spark_may_have_a_space_and_may_have_no_unit(
    text: str, ms: int | None
) -> None:
    assert parse.duration_ms(text) == ms
