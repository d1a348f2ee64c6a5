"""The real clock, by which the broker decides.

Who only measures, rations its log lines or breathes asks the operating system itself: the contract
"time is asked for in these places" in pyproject.toml names them.
"""

from __future__ import annotations

import time


class RealClock:
    """Implements `base.ports.Clock`."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump when the system's clock is set."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back."""
        return time.monotonic_ns() // 1_000_000
