"""The real clock, the basis of the broker's decisions.

Code that only measures, limits its log rate or yields asks the operating system directly; the
contract "time is asked for in these places" in pyproject.toml names these places.
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
