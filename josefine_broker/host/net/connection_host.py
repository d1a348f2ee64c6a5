"""What the connections of one server share: limits, counters, memory, and the callbacks into the
rest of the process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from josefine_broker.engine.limits.request_memory import RequestMemory
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.host.metrics import ConnectionStats
from josefine_broker.host.net.dispatch import Dispatcher
from josefine_broker.host.net.produce_turn import ProduceTurn
from josefine_broker.host.rate_limited_log import RateLimitedLog
from josefine_broker.wire.frames import ChunkPool

log = logging.getLogger("josefine_broker.host.net.connection")

SEND_BUFFERS_MAX = 64
"""Answers of one read are sent together, but no more buffers than this are held back: large fetch
answers must reach the transport, whose bound then stops the serving."""
DRAIN_LOOK_S = 0.05
"""How often a closing connection is checked for unanswered requests."""
CLOSED_LINES = 10
"""Log lines per minute about connections closed for their input; the rest is counted."""


class MemoryHolder(Hashable, Protocol):
    """A connection, as far as the memory of large requests concerns it."""

    @property
    def stalls(self) -> bool: ...

    @property
    def address(self) -> str: ...

    def has_memory(self) -> None:
        """Memory for its request is available now."""
        ...

    def abort(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds of one connection, and of all together, from the configuration."""

    frame_bytes_max: int
    in_flight_max: int
    write_buffer_bytes: int
    request_bytes_max: int
    """Bound of all large requests being received."""
    send_buffer_bytes: int | None = None
    """The kernel's send buffer of each connection; None: the kernel chooses. With a small one the
    client reads earlier, and both sides copy through warm memory. Measured with answers of 8 MiB to
    librdkafka on two busy cores: 184 MB/s of 100-byte records with the kernel's 4 MB, 404 with
    512 KiB, 442 with 100 KiB (358 from Apache Kafka, which has 100 KiB)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """State that all connections of a server share."""

    dispatcher: Dispatcher
    limits: ConnectionLimits
    stats: ConnectionStats
    on_parked: Callable[[int], None]
    """Called with the deadline when a request waits: it may be the earliest one."""
    forget: Callable[[Parked], None]
    """Called when no client is left to answer this waiting request."""
    on_fatal: Callable[[BaseException], None]
    """Called when an invariant of ours is broken; the broker must stop."""
    monotonic_ms: Callable[[], int]
    memory: RequestMemory[MemoryHolder] = field(init=False)
    """Memory for large requests being received."""
    turn: ProduceTurn | None = None
    """Serves plain produce requests; None: the dispatcher serves all."""
    chunks: ChunkPool = field(default_factory=ChunkPool)
    """Free receive memory for the next connection that needs it."""
    log_closed: RateLimitedLog = field(
        default_factory=lambda: RateLimitedLog(
            log, "connection closed", time.monotonic, logging.WARNING, lines=CLOSED_LINES
        )
    )
    """Rate limited: clients that send garbage once do so on many connections."""

    def __post_init__(self) -> None:
        memory: RequestMemory[MemoryHolder] = RequestMemory(self.limits.request_bytes_max)
        object.__setattr__(self, "memory", memory)  # frozen

    def release(self, connection: MemoryHolder) -> None:
        """Release a connection's memory, so that waiting connections continue."""
        for each in self.memory.release(connection, self.monotonic_ms()):
            # In a separate turn: it serves requests, and may release memory for the next one.
            asyncio.get_running_loop().call_soon(each.has_memory)
