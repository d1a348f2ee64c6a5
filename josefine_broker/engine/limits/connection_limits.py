"""Connection limits, in total and per address, and which connection is closed for a new one.

Rules: a new connection is accepted while there is room. Otherwise the connection that has been idle
the longest, without a request in progress, is closed for it; only among the connections of the new
one's address if that is at its limit, so that one machine cannot displace others. A connection that
was active within the last second stays, or clients that arrive together would displace each other
forever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

IDLE_MS_MIN = 1_000
LOOK_EVERY_MS = 100
"""Scanning all connections takes a fraction of a millisecond: too much for each one of a flood."""


class Occupant(Protocol):
    """A connection, with the fields that matter here."""

    received: int
    received_before: int
    """`received` at the last check: equal means that nothing came since."""
    idle_since_ms: int

    @property
    def waits(self) -> bool: ...

    @property
    def host(self) -> str: ...


Guest = TypeVar("Guest", bound=Occupant)


@dataclass(frozen=True, slots=True)
class Verdict(Generic[Guest]):
    """The decision about a new connection."""

    refusal: str = ""
    """Why it is refused."""
    is_address_full: bool = False
    gives_way: Guest | None = None
    """The connection to close for it."""


class Room(Generic[Guest]):
    """The open connections. Call `make_room`, then `enter`; `leave` at the end. Mutable."""

    def __init__(self, *, total_max: int, per_address_max: int | None) -> None:
        self._total_max = total_max
        self._per_address_max = per_address_max
        self._all: dict[Guest, None] = {}
        self._by_host: dict[str, dict[Guest, None]] = {}
        self._idle: dict[str, tuple[int, deque[Guest]]] = {}
        """Host (empty: all) → time of the last scan, and the idle connections, longest first."""

    def __len__(self) -> int:
        return len(self._all)

    def occupants(self) -> list[Guest]:
        return list(self._all)

    def make_room(self, host: str, now_ms: int) -> Verdict[Guest]:
        """Decide about a connection from `host`. One that gives way has left already."""
        of_host = self._by_host.get(host, {})
        is_address_full = (
            self._per_address_max is not None and len(of_host) >= self._per_address_max
        )
        if not is_address_full and len(self._all) < self._total_max:
            return Verdict()
        # An address that is full makes room among its own connections: it cannot push out those of
        # others.
        among, key = (of_host, host) if is_address_full else (self._all, "")
        idle = self._longest_idle(among, key, now_ms)
        if idle is not None:
            self.leave(idle)
            return Verdict(is_address_full=is_address_full, gives_way=idle)
        whose = f"{host} has" if is_address_full else "there are"
        refusal = f"{whose} {len(among)} connections, and none is idle"
        return Verdict(refusal, is_address_full)

    def enter(self, occupant: Guest, now_ms: int) -> None:
        """The connection is open. The caller has made room for it."""
        occupant.idle_since_ms = now_ms
        self._all[occupant] = None
        self._by_host.setdefault(occupant.host, {})[occupant] = None

    def leave(self, occupant: Guest) -> None:
        """The connection is closed; calling this twice does no harm."""
        if occupant not in self._all:
            return
        del self._all[occupant]
        of_host = self._by_host[occupant.host]
        del of_host[occupant]
        if not of_host:
            del self._by_host[occupant.host]
            self._idle.pop(occupant.host, None)

    def idle_for(self, timeout_ms: int, now_ms: int) -> list[Guest]:
        """The connections that have sent nothing for this long, and wait for nothing."""
        return [
            each
            for each in self._all
            if not _is_active(each, now_ms) and now_ms - each.idle_since_ms >= timeout_ms
        ]

    def _longest_idle(self, among: Collection[Guest], key: str, now_ms: int) -> Guest | None:
        """The connection to close; None: all are active, or were scanned a moment ago.

        A scan of all connections costs time, so under a flood of new ones it happens once in
        LOOK_EVERY_MS; its result is used up in between.
        """
        looked_ms, queue = self._idle.get(key, (now_ms - LOOK_EVERY_MS, deque()))
        found = self._next_idle(queue, now_ms)
        if found is None and now_ms - looked_ms >= LOOK_EVERY_MS:
            idle = [each for each in among if not _is_active(each, now_ms)]
            queue = deque(sorted(idle, key=lambda each: each.idle_since_ms))
            self._idle[key] = now_ms, queue
            found = self._next_idle(queue, now_ms)
        return found

    def _next_idle(self, queue: deque[Guest], now_ms: int) -> Guest | None:
        """The next one of the scan that is still idle. They are sorted, so the first that is not
        idle for long enough ends it."""
        while queue:
            first = queue.popleft()
            if first not in self._all or _is_active(first, now_ms):
                continue
            if now_ms - first.idle_since_ms < IDLE_MS_MIN:
                queue.clear()
                return None
            return first
        return None


def _is_active(occupant: Occupant, now_ms: int) -> bool:
    """Whether it has sent anything since the last check, or waits for an answer."""
    # Compared here, and not noted per request: the hot path only counts bytes.
    if occupant.received == occupant.received_before and not occupant.waits:
        return False
    occupant.received_before = occupant.received
    occupant.idle_since_ms = now_ms
    return True
