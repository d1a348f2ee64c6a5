"""Progress lines of a slow start: no start is silent for ten seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")

FIRST_S = 3.0
AGAIN_S = 8.0
"""Time until the first line, and between two lines."""


async def tell_meanwhile(
    work: Coroutine[object, object, T], say: Callable[[str], None], words: Callable[[], str]
) -> T:
    """The result of `work`; while it runs, `words` are logged. If cancelled, it cancels the
    work."""
    task = asyncio.ensure_future(work)
    wait_s = FIRST_S
    try:
        while not (await asyncio.wait((task,), timeout=wait_s))[0]:
            say(words())
            wait_s = AGAIN_S
    finally:
        task.cancel()
    return task.result()
