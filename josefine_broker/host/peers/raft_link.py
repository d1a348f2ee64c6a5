"""The outgoing link to one peer: a queue, and the connection that is dialed to empty it.

Rules: a frame is written at once if the connection accepts it, otherwise it waits; above the bounds
the oldest frames are dropped, because Raft and heartbeats repeat what matters. All addresses of a
peer are tried, the newest first, then a growing wait, half of it random, until the next round; a
peer that contacts us is dialed at once. A peer counts as refused when all its addresses refused. A
link that was not used for IDLE_SECONDS ends, connected or not: the peer left.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import NamedTuple

from josefine_broker.base.addresses import HostPort
from josefine_broker.host.peers.raft_connection import Connection, PeerError, TransportStats

log = logging.getLogger(__name__)

BACKOFF_SECONDS = (0.05, 1.0)
"""First and longest wait between two dials of a peer; half of it is random."""
QUEUE_FRAMES_MAX = 4_096
IDLE_SECONDS = 60.0


class _Attempt(NamedTuple):
    """The last attempt to dial the peer; the defaults are those of a successful one."""

    is_refused: bool = False
    trouble: str = ""


class _FrameQueue:
    """Frames that wait for a connection, bounded in number and bytes. Mutable."""

    __slots__ = ("_bytes_max", "_frames", "_size_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._frames: deque[bytes] = deque()
        self._size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._frames)

    def add(self, frame: bytes) -> int:
        """Append, and drop the oldest frames above the bounds; returns how many were dropped."""
        self._frames.append(frame)
        self._size_bytes += len(frame)
        dropped = 0
        while self._size_bytes > self._bytes_max or len(self._frames) > QUEUE_FRAMES_MAX:
            self.take_oldest()
            dropped += 1
        return dropped

    def take_oldest(self) -> bytes:
        frame = self._frames.popleft()
        self._size_bytes -= len(frame)
        return frame


class Link:
    """Call `run` once; meanwhile `send` and `poke`."""

    def __init__(
        self,
        node_id: int,
        *,
        addresses: Callable[[], Iterable[HostPort]],
        dial: Callable[[HostPort], Awaitable[Connection]],
        on_refused: Callable[[], None],
        stats: TransportStats,
        rng: Random,
        queue_bytes_max: int,
        idle_s: float = IDLE_SECONDS,
    ) -> None:
        """`dial` raises PeerError; `on_refused` is called after each round in which all refused."""
        self._node_id = node_id
        self._addresses = addresses
        self._dial = dial
        self._on_refused = on_refused
        self._stats = stats
        self._rng = rng
        self._queue = _FrameQueue(queue_bytes_max)
        self._attempt = _Attempt()
        self._connection: Connection | None = None
        self._poked = asyncio.Event()  # ends the wait between two dials
        self._idle_s = idle_s
        self._used_at = 0.0
        """When something was last sent, by the loop's clock."""

    @property
    def is_refused(self) -> bool:
        """At the last attempt every address of the peer refused the connection."""
        return self._attempt.is_refused

    @property
    def trouble(self) -> str:
        """Why the last attempt failed, with its address; empty while connected."""
        return self._attempt.trouble

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    def send(self, data: bytes) -> None:
        """Write a frame, or queue it."""
        self._used_at = asyncio.get_running_loop().time()
        connection = self._connection
        if connection is not None and connection.is_open and not connection.is_paused:
            connection.write(data)
            return
        self._stats.frames_dropped += self._queue.add(data)

    def poke(self) -> None:
        """The peer is up: dial it now."""
        self._poked.set()

    async def run(self) -> None:
        """Dial, transmit, dial again, until nothing has been sent for a while."""
        self._used_at = asyncio.get_running_loop().time()
        attempt = 0
        while True:
            if await self._dial_all():
                attempt = 0
                await self._carry()
            else:
                attempt += 1
            if self._is_idle():
                return
            await self._pause(attempt)

    def _is_idle(self) -> bool:
        return asyncio.get_running_loop().time() >= self._used_at + self._idle_s

    async def _dial_all(self) -> bool:
        """Try all addresses of the peer; is there a connection?"""
        refusals, trouble = [], ""
        for address in self._addresses():
            try:
                connection = await self._dial(address)
            except PeerError as error:
                self._stats.dials_failed += 1
                log.debug("raft dial failed", extra={"peer": self._node_id, "reason": error})
                refusals.append(error.is_refused)
                trouble = trouble or str(error)
                continue
            self._attempt = _Attempt()
            connection.on_resume = self._flush
            self._connection = connection
            return True
        self._attempt = _Attempt(bool(refusals) and all(refusals), trouble)
        if self.is_refused:
            self._on_refused()
        return False

    async def _pause(self, attempt: int) -> None:
        """Wait before the next dial; `poke` ends the wait early."""
        first, longest = BACKOFF_SECONDS
        wait_s = min(longest, first * 2.0 ** min(attempt, 10)) * (0.5 + self._rng.random() / 2)
        try:
            async with asyncio.timeout(wait_s):
                await self._poked.wait()
        except TimeoutError:
            pass
        self._poked.clear()

    async def _carry(self) -> None:
        """Transmit until the connection ends or is no longer needed."""
        assert self._connection is not None
        connection = self._connection
        self._stats.connected += 1
        log.info("raft peer connected", extra={"peer": self._node_id})
        try:
            self._flush()
            while not connection.closed.is_set():
                try:
                    async with asyncio.timeout_at(self._used_at + self._idle_s):
                        await connection.closed.wait()
                except TimeoutError:
                    if self._is_idle():
                        return
        finally:
            self._stats.connected -= 1
            self._connection = None
            connection.abort()
        log.info(
            "raft peer lost",
            extra={"peer": self._node_id, "reason": connection.failure or "closed"},
        )

    def _flush(self) -> None:
        connection = self._connection
        while self._queue and connection is not None:
            if connection.is_paused or not connection.is_open:
                return
            connection.write(self._queue.take_oldest())
