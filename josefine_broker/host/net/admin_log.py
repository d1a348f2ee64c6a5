"""The logger of aiohttp for the admin listener: malformed input is counted, logged once a minute,
and never repeated; our own failures keep their traceback.

aiohttp itself logs a traceback with the received bytes for each malformed request.
"""

from __future__ import annotations

import logging
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError

from josefine_broker.host.clock import RealClock
from josefine_broker.host.metrics import ConnectionStats
from josefine_broker.host.rate_limited_log import RateLimitedLog

log = logging.getLogger(__name__)


def seconds() -> float:
    """A monotonic clock."""
    return RealClock().monotonic_ms() / 1_000


class AdminLog(logging.LoggerAdapter[logging.Logger]):
    """Replaces aiohttp's logger."""

    def __init__(self, stats: ConnectionStats) -> None:
        super().__init__(log)
        self._stats = stats
        self._malformed = RateLimitedLog(log, "malformed admin request", seconds, logging.WARNING)

    def debug(self, msg: object, *args: object, **more: Any) -> None:
        if not self._is_strangers(args, more):
            super().debug(msg, *args, **more)

    def exception(self, msg: object, *args: object, **more: Any) -> None:
        if not self._is_strangers(args, more):
            super().exception(msg, *args, **more)

    def _is_strangers(self, args: tuple[object, ...], more: dict[str, Any]) -> bool:
        error = more.get("exc_info")
        if not isinstance(error, HttpProcessingError):
            return False
        self._stats.closed.malformed += 1
        self._malformed.report(client=str(args[0]) if args else "", reason=type(error).__name__)
        return True
