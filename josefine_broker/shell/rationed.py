"""A warning that strangers can cause is told once a minute at most, with how often it happened.

Whoever can make a broker write a line per connection can fill its disk, and hides what matters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

EVERY_SECONDS = 60.0


class Rationed:
    """One kind of event. `tell` at each; what happened meanwhile is counted into the next line."""

    def __init__(
        self, log: logging.Logger, message: str, seconds: Callable[[], float], level: int
    ) -> None:
        """`seconds` is a clock that does not go back."""
        self._log = log
        self._message = message
        self._seconds = seconds
        self._level = level
        self._due_s: float | None = None
        self._untold = 0

    def tell(self, **fields: object) -> None:
        """It happened. The fields told are those of the one that is told."""
        self._untold += 1
        now_s = self._seconds()
        if self._due_s is not None and now_s < self._due_s:
            return
        self._due_s = now_s + EVERY_SECONDS
        times, self._untold = self._untold, 0
        self._log.log(self._level, self._message, extra={**fields, "times": times})
