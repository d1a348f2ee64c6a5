"""Sends lines to other brokers' text listeners, for commands that only one broker decides.

Rules: as in `host/peers/forwarder.py`; one connection per line, and any failure is reported as
None.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from josefine_broker.base.ports import Clock
from josefine_broker.client.cluster import Address

REPLY_BYTES_MAX = 4 * 1024 * 1024
"""10,000 subscriptions in one reply, each with the longest group name."""


class TextForwarder:
    """Implements `text.front.LinePort`. `stop` ends all lines in flight."""

    def __init__(
        self,
        address_of: Callable[[int], Address | None],
        clock: Clock,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    ) -> None:
        """`address_of`: where a broker's text listener is dialed, if it has one; `tls`: how."""
        self._address_of = address_of
        self._tls = tls
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def say(
        self, broker_id: int, line: str, deadline_ms: int, on_reply: Callable[[str | None], None]
    ) -> None:
        """`on_reply` is called later, on the event loop, with None when there is no reply."""

        async def said() -> None:
            on_reply(await self._say(broker_id, line, deadline_ms))

        task = asyncio.get_running_loop().create_task(said(), name="text line")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _say(self, broker_id: int, line: str, deadline_ms: int) -> str | None:
        address = self._address_of(broker_id)
        if address is None:
            return None
        left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        try:
            async with asyncio.timeout(left_ms / 1_000):
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, limit=REPLY_BYTES_MAX, ssl=self._tls()
                )
                try:
                    writer.write(f"{line}\n".encode())
                    reply = await reader.readuntil(b"\n")
                finally:
                    writer.close()
            return reply.decode().removesuffix("\n")
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):  # a TimeoutError too
            return None

    async def stop(self) -> None:
        """No pending line is answered any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
