"""Rate limited log lines, with the number of suppressed events.

Clients that can cause a log line per connection could fill the disk and hide important lines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

EVERY_SECONDS = 60.0
REASONS_MAX = 32
"""Bound of the reasons: clients could invent more without end."""


class RateLimitedLog:
    """One kind of event. Call `report` for each; suppressed ones are counted into the next line."""

    def __init__(
        self,
        log: logging.Logger,
        message: str,
        seconds: Callable[[], float],
        level: int,
        *,
        lines: int = 1,
    ) -> None:
        """`seconds` is a monotonic clock; `lines` are logged per minute."""
        self._log = log
        self._message = message
        self._seconds = seconds
        self._level = level
        self._lines = lines
        self._left = lines
        self._due_s = seconds()
        self._unreported = 0

    def report(self, **fields: object) -> None:
        """Log the event with its fields, or count it for the next line."""
        self._unreported += 1
        now_s = self._seconds()
        if now_s >= self._due_s:
            self._due_s = now_s + EVERY_SECONDS
            self._left = self._lines
        if not self._left:
            return
        self._left -= 1
        times, self._unreported = self._unreported, 0
        self._log.log(self._level, self._message, extra={**fields, "times": times})


class RateLimitedLogByReason:
    """The same for each reason separately: one line per minute."""

    def __init__(
        self, log: logging.Logger, message: str, seconds: Callable[[], float], level: int
    ) -> None:
        self._new = partial(RateLimitedLog, log, message, seconds, level)
        self._by_reason: dict[str, RateLimitedLog] = {}

    def report(self, reason: str, **fields: object) -> None:
        """Log an event for this reason. Above REASONS_MAX new reasons share one line."""
        key = reason if len(self._by_reason) < REASONS_MAX else ""
        found = self._by_reason.get(reason) or self._by_reason.get(key)
        if found is None:
            found = self._by_reason[key] = self._new()
        found.report(**fields, reason=reason)
