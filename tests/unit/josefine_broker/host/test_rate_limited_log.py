"""Lines that strangers cause: a few a minute, none of them lost from the count."""

from __future__ import annotations

import logging

import pytest

from josefine_broker.host.rate_limited_log import (
    EVERY_SECONDS,
    REASONS_MAX,
    RateLimitedLog,
    RateLimitedLogByReason,
)

log = logging.getLogger("josefine_broker.tests.rationed")


@pytest.mark.parametrize("lines", [1, 3])
def test_a_flood_is_a_few_lines_a_minute_that_count_it(
    lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 5.0
    rationed = RateLimitedLog(log, "refused", lambda: now_s, logging.WARNING, lines=lines)
    with caplog.at_level(logging.INFO):
        for number in range(100):
            rationed.report(client=number)
        now_s += EVERY_SECONDS
        rationed.report(client="next")

    told = [(each.__dict__["client"], each.__dict__["times"]) for each in caplog.records]
    assert told == [*((number, 1) for number in range(lines)), ("next", 101 - lines)]


def test_each_reason_has_its_line_and_invented_ones_share_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rationed = RateLimitedLogByReason(log, "refused", lambda: 5.0, logging.WARNING)
    for number in range(10 * REASONS_MAX):
        rationed.report(str(number))
        rationed.report("0")

    assert len(caplog.records) == REASONS_MAX + 1
    assert caplog.records[0].__dict__["reason"] == "0"
