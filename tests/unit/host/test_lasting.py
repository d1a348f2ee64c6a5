"""A trouble that lasts is told when it begins, once a minute, and when it ends."""

from __future__ import annotations

import logging

import pytest

from josefine_broker.host.ongoing_condition import logged

log = logging.getLogger(__name__)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    return [(each.getMessage(), getattr(each, "lasted_s", 0)) for each in caplog.records]


def test_trouble_is_told_once_a_minute_however_often_it_is_seen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    trouble = logged(log, "lost", leader=3)

    for now_ms in range(5_000, 155_000, 500):
        trouble.goes_on(now_ms, f"reason at {now_ms}")
    trouble.end(160_000, "found")
    trouble.end(161_000, "found")

    assert told(caplog) == [("lost", 0), ("lost", 60), ("lost", 120), ("found", 155)]
    assert {getattr(each, "leader", None) for each in caplog.records} == {3}
    assert getattr(caplog.records[1], "reason", "") == "reason at 65000"


def test_trouble_that_comes_back_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trouble = logged(log, "lost")

    trouble.end(0, "found")
    trouble.goes_on(1_000, "r")
    trouble.end(2_000, "found")
    trouble.goes_on(3_000, "r")

    assert told(caplog) == [("lost", 0), ("found", 1), ("lost", 0)]
