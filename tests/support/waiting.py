"""Waiting for a condition with a deadline: the only way a test may pass time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.01


def wait_until(condition: Callable[[], T], timeout_s: float, what: str) -> T:
    """The first truthy result of `condition`; AssertionError naming `what` at the deadline."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(POLL_SECONDS)


async def wait_until_async(condition: Callable[[], T], timeout_s: float, what: str) -> T:
    """The same, letting the event loop run meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        result = condition()
        if result:
            return result
        if loop.time() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        await asyncio.sleep(0.001)
