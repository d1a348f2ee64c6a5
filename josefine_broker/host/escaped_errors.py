"""Errors that escape from callbacks and tasks of the event loop.

A loop only logs them, a `Fatal` too: a broken invariant that arose in a timer, or in a task that
nobody waits for, would leave the broker serving. Anything else is logged, with its trace, and ends
only what raised it.
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
    """From now on `on_fatal` is called with what must stop this broker."""

    def escaped(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Fatal | InvariantBroken):
            on_fatal(error)
        else:
            log.error("event loop", extra={"reason": context["message"]}, exc_info=error)

    loop.set_exception_handler(escaped)
