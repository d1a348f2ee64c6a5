"""A limit in bytes per second for work on its own thread."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_S = 0.05
"""Longest single sleep: then the work is asked whether it is still wanted. Idle time saves up no
more than this either."""


class Pace:
    """Mutable; belongs to one piece of work and its thread."""

    __slots__ = ("_breathe", "_monotonic_s", "_rate", "_sleep", "_until_s")

    def __init__(
        self,
        bytes_per_second: int | None,
        breathe: Callable[[], None],
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`breathe` is called between two sleeps, and may raise; a rate of None means no limit."""
        self._rate = bytes_per_second
        self._breathe = breathe
        self._monotonic_s = monotonic_s
        self._sleep = sleep
        self._until_s = monotonic_s()

    def moved(self, size_bytes: int) -> None:
        """Count bytes; returns when the rate allows them."""
        if self._rate is None:
            return
        now_s = self._monotonic_s()
        self._until_s = max(self._until_s, now_s - STEP_S) + size_bytes / self._rate
        while (left_s := self._until_s - now_s) > 0:
            self._sleep(min(left_s, STEP_S))
            self._breathe()
            now_s = self._monotonic_s()
