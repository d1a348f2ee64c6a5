"""The immediate send of small answers, without the transport's queue.

uvloop sends what a transport was given after the callback that gave it; until then the client
waits for work that has nothing to do with its answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from josefine_broker.host.net.dispatch import Buffer

SMALL_BYTES = 4096
"""Larger answers may wait for room in the socket: they are the transport's from the start."""


def send_now(
    transport: asyncio.Transport, descriptor: int, out: Sequence[Buffer], size: int
) -> None:
    """Send answers (of `size` bytes in all). What the socket does not take at once, and every
    error, is left to the transport, which also knows what is queued already. The caller knows that
    the connection is not lost: until then, the descriptor is the transport's own."""
    if len(out) > 1 or size > SMALL_BYTES or transport.get_write_buffer_size():
        transport.writelines(out)
        return
    try:
        sent = os.write(descriptor, out[0])
    except OSError:
        sent = 0
    if sent != size:
        transport.write(memoryview(out[0])[sent:])
