"""The bounded pool of clients that read topics: the I/O shell around `pool.py`.

Rules: a reader is held for one fetch, never while its caller processes the result, so no caller
holds one and waits for another; an append never waits for a fetch; a cancelled caller passes its
turn to the next one.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from josefine_broker.client.io_asyncio import AsyncClient, monotonic_ms
from josefine_journal.errors import ReadersBusy
from josefine_journal.pool import IDLE_MS, WAIT_MS, Caller, Limits, Pool, Reader, readers_max

MULTIPLIER = 10.0
"""Readers per core, as in kafka-journal."""


class Readers:
    """The pool for one event loop and any number of topics of one cluster; `close` it. `opened`
    creates a client, which connects at its first use."""

    def __init__(
        self,
        opened: Callable[[], AsyncClient],
        *,
        multiplier: float = MULTIPLIER,
        cores: int | None = None,
        idle_ms: int = IDLE_MS,
        wait_ms: int = WAIT_MS,
        clock_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        most = readers_max(multiplier, cores or os.cpu_count() or 1)
        self._limits = Limits(readers_max=most, idle_ms=idle_ms, wait_ms=wait_ms)
        self._pool = Pool(self._limits)
        self._opened = opened
        self._clock_ms = clock_ms
        self._clients: dict[Reader, AsyncClient] = {}
        self._turns: dict[Caller, asyncio.Future[Reader]] = {}
        self._callers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def size(self) -> int:
        """Number of open clients."""
        return self._pool.size

    @asynccontextmanager
    async def reader(self) -> AsyncGenerator[AsyncClient, None]:
        """Borrow a reader; return it as soon as possible. Raises ReadersBusy."""
        reader = await self._taken()
        try:
            if reader not in self._clients:
                self._clients[reader] = self._opened()
            yield self._clients[reader]
        finally:
            self._give_back(reader)

    async def close(self) -> None:
        """Close every client; fetches in flight fail with network_exception."""
        if self._timer is not None:
            self._timer.cancel()
        for client in self._clients.values():
            await client.close()
        await asyncio.gather(*self._closing)

    async def _taken(self) -> Reader:
        self._callers += 1
        caller = Caller(self._callers)
        reader = self._pool.ask(caller, self._clock_ms())
        if reader is not None:
            return reader
        turn: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()
        self._turns[caller] = turn
        self._set_timer()
        try:
            return await turn
        except asyncio.CancelledError:
            self._pool.leave(caller)
            if turn.done() and not turn.cancelled():  # it got a reader while it was cancelled
                self._give_back(turn.result())
            raise
        finally:
            del self._turns[caller]

    def _give_back(self, reader: Reader) -> None:
        caller = self._pool.give_back(reader, self._clock_ms())
        if caller is None:
            self._set_timer()
        elif self._turns[caller].done():  # it was cancelled and has not run yet
            self._give_back(reader)
        else:
            self._turns[caller].set_result(reader)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        next_ms = self._pool.next_ms()
        if next_ms is not None:
            delay_s = max(0, next_ms - self._clock_ms()) / 1_000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        now_ms = self._clock_ms()
        for caller in self._pool.late(now_ms):
            if not self._turns[caller].done():
                self._turns[caller].set_exception(
                    ReadersBusy(self._limits.readers_max, self._limits.wait_ms)
                )
        for reader in self._pool.idle(now_ms):
            client = self._clients.pop(reader, None)
            if client is not None:
                task = asyncio.get_running_loop().create_task(client.close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        self._set_timer()
