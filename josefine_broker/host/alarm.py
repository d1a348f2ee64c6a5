"""One timer of the event loop, set for a time of the broker's clock.

Rules: it is set for one time or for none; a new setting replaces the former one. It rings once, and
never within the current millisecond: otherwise a caller that sets it for the past, or for now,
would loop without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from josefine_broker.base.ports import Clock

WAIT_MIN_MS = 1


class Alarm:
    """`set` it; `ring` is called at that time, after the alarm was reset."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self.at_ms: int | None = None
        """The time it is set for, on the monotonic clock; None: not set."""
        self._clock = clock
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_ms: int | None) -> None:
        """Ring at this time; None: not at all."""
        if at_ms == self.at_ms:
            return
        self.at_ms = at_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ms is not None:
            wait_ms = max(WAIT_MIN_MS, at_ms - self._clock.monotonic_ms())
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(wait_ms / 1_000, self._fire)

    def _fire(self) -> None:
        self.at_ms = self._timer = None
        self._ring()
