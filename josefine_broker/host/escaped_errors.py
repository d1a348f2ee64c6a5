"""Handler of errors that escape from callbacks and tasks of the event loop.

The loop would only log them, even a `Fatal`: a broken invariant in a timer, or in a task that
nothing awaits, would leave the broker serving. Any other error is logged with its traceback and
ends only the callback or task that raised it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from josefine_broker.base.errors import Fatal
from raft import InvariantBroken

log = logging.getLogger(__name__)


def stop_on_broken_invariants(
    loop: asyncio.AbstractEventLoop, on_fatal: Callable[[BaseException], None]
) -> None:
    """From now on `on_fatal` is called with errors that must stop this broker."""

    def escaped(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Fatal | InvariantBroken):
            on_fatal(error)
        else:
            log.error("event loop", extra={"reason": context["message"]}, exc_info=error)

    loop.set_exception_handler(escaped)


class FirstFailure:
    """The first error that must stop this broker; its state can no longer be trusted. Mutable."""

    __slots__ = ("_on_fatal", "error")

    def __init__(self, on_fatal: Callable[[], None]) -> None:
        """`on_fatal` is called once, when `error` is there."""
        self.error: BaseException | None = None
        self._on_fatal = on_fatal

    def note(self, error: BaseException) -> None:
        """Note a failure. The later ones follow from the first, which alone is shown."""
        if self.error is None:
            self.error = error
            if not isinstance(error, Exception):
                log.error("broken invariant", exc_info=error)
            self._on_fatal()
