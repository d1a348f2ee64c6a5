"""A line that strangers can cause is told a few times a minute at most, with how often it happened.

Whoever can make a broker write a line per connection can fill its disk, and hides what matters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

EVERY_SECONDS = 60.0
REASONS_MAX = 32
"""Others may invent more for ever."""


class Rationed:
    """One kind of event. `tell` at each; what happened meanwhile is counted into the next line."""

    def __init__(
        self,
        log: logging.Logger,
        message: str,
        seconds: Callable[[], float],
        level: int,
        *,
        lines: int = 1,
    ) -> None:
        """`seconds` is a clock that does not go back; `lines` are told in a minute."""
        self._log = log
        self._message = message
        self._seconds = seconds
        self._level = level
        self._lines = lines
        self._left = lines
        self._due_s = seconds()
        self._untold = 0

    def tell(self, **fields: object) -> None:
        """It happened. The fields told are those of the one that is told."""
        self._untold += 1
        now_s = self._seconds()
        if now_s >= self._due_s:
            self._due_s = now_s + EVERY_SECONDS
            self._left = self._lines
        if not self._left:
            return
        self._left -= 1
        times, self._untold = self._untold, 0
        self._log.log(self._level, self._message, extra={**fields, "times": times})


class RationedByReason:
    """The same, for each reason by itself: a line a minute."""

    def __init__(
        self, log: logging.Logger, message: str, seconds: Callable[[], float], level: int
    ) -> None:
        self._new = partial(Rationed, log, message, seconds, level)
        self._by_reason: dict[str, Rationed] = {}

    def tell(self, reason: str, **fields: object) -> None:
        """It happened, for this reason. Past REASONS_MAX those that come new share one line."""
        key = reason if len(self._by_reason) < REASONS_MAX else ""
        found = self._by_reason.get(reason) or self._by_reason.get(key)
        if found is None:
            found = self._by_reason[key] = self._new()
        found.tell(**fields, reason=reason)
