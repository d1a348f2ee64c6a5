"""What strangers send to the admin listener is counted; our own failures keep their traceback."""

from __future__ import annotations

import logging

import pytest
from aiohttp.http_exceptions import BadStatusLine

from josefine_broker.host.metrics import ConnectionStats
from josefine_broker.host.net.admin_log import AdminLog


def test_malformed_requests_are_counted_and_logged_without_what_was_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stats = ConnectionStats()
    log = AdminLog(stats)

    for _ in range(3):
        log.exception("Error handling request from %s", "10.0.0.9", exc_info=BadStatusLine("x-1"))

    assert stats.closed.malformed == 3
    assert "x-1" not in caplog.text
    assert len(caplog.records) == 1


def test_a_failure_of_our_own_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    stats = ConnectionStats()

    AdminLog(stats).exception("Error handling request", exc_info=ValueError("ours"))

    assert stats.closed.malformed == 0
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
