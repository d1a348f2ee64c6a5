"""Readers between two looks: how fast they read and when they are done."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from josefine_cli.base.top import COLUMNS, Reading, speeds, table_rows, watch_readers


def reading(read: int, lag: int | None, state: str = "ok") -> Reading:
    return Reading(state=state, read=read, lag=lag)


def test_the_greatest_lag_is_first_and_equal_ones_are_by_name() -> None:
    now = {"b": reading(1, 5), "a": reading(1, 5), "c": reading(1, None), "d": reading(1, 9)}

    assert [each.name for each in speeds({}, now, 0)] == ["d", "a", "b", "c"]


@pytest.mark.parametrize(
    ("before", "now", "rate", "left_s"),
    [
        (reading(100, 50), reading(120, 30), 10.0, 3.0),
        (reading(100, 50), reading(120, 60), 10.0, None),  # writers are faster
        (reading(100, 50), reading(40, 110), 0.0, None),  # its offsets were reset
        (reading(100, 0), reading(120, 0), 10.0, 0.0),
        (reading(100, None), reading(120, 30), 10.0, None),
        (None, reading(120, 30), None, None),
        (None, reading(120, 0), None, 0.0),
    ],
)
def test_a_speed_is_of_what_was_read_and_the_time_left_of_how_the_lag_shrinks(
    before: Reading | None, now: Reading, rate: float | None, left_s: float | None
) -> None:
    (found,) = speeds({} if before is None else {"a": before}, {"a": now}, 2.0)

    assert (found.per_second, found.left_s) == (rate, left_s)


def test_the_age_of_the_lag_has_a_column_where_a_reader_has_one() -> None:
    aged = Reading(state="ok", read=5, lag=3, lag_s=12.34)

    columns, rows = table_rows(speeds({}, {"a": aged, "b": reading(1, 0)}, 0))
    assert columns == ("name", "state", "read", "lag", "oldest unread", "per second", "left")
    assert [row[4] for row in rows] == ["12.3 s", "-"]
    assert table_rows(speeds({}, {"b": reading(1, 0)}, 0))[0] == COLUMNS


def test_a_reader_that_is_gone_is_left_out_and_looks_end_by_number_or_by_ctrl_c(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks: Iterator[dict[str, Reading]] = iter([{"a": reading(1, 1)}, {"b": reading(2, 0)}])
    watch_readers(lambda: next(looks), 0.01, 2, as_json=True)

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == [
        {
            "name": "a",
            "state": "ok",
            "read": 1,
            "lag": 1,
            "lag_s": None,
            "per_second": None,
            "left_s": None,
        }
    ]
    assert [each["name"] for each in second] == ["b"]

    def interrupted() -> dict[str, Reading]:
        raise KeyboardInterrupt

    watch_readers(interrupted, 0.01, None, as_json=False)


def test_without_a_terminal_each_look_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    watch_readers(lambda: {"a": reading(1_000, None)}, 0.01, 2, as_json=False)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "state", "read", "lag", "per", "second", "left"]
    assert lines[1].split() == ["a", "ok", "1,000", "-", "-", "-"]
    assert lines[3].split() == ["a", "ok", "1,000", "-", "0.0", "-"]
