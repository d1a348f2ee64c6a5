"""The memory for large requests while they are received: all connections share a limit, in the
order in which their requests began; a connection without room is not read until there is some.

Rules: a request gets room for all its bytes or none, so that every request with room can finish,
and the sum never exceeds the limit (except for a single request). A connection that keeps its room
while others wait delays them: it is overdue after a time that grows with the size of its request.
"""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

GRACE_MS = 5_000
"""How long any request may take while others wait."""
BYTES_PER_MS = 10_000
"""Additional time for large requests: 10 MB per second."""

Who = TypeVar("Who", bound=Hashable)


class _Given(NamedTuple):
    size: int
    since_ms: int

    def is_overdue(self, pressed_since_ms: int, now_ms: int) -> bool:
        may_take_ms = GRACE_MS + self.size // BYTES_PER_MS
        return now_ms - max(self.since_ms, pressed_since_ms) >= may_take_ms


class RequestMemory(Generic[Who]):
    """The connections with room, and those that wait. Each has one request at a time. Mutable."""

    __slots__ = ("_bytes_max", "_given", "_pressed_since_ms", "_waiting", "used")

    def __init__(self, bytes_max: int) -> None:
        self.used = 0
        """Bytes in use."""
        self._bytes_max = bytes_max
        self._given: dict[Who, _Given] = {}
        self._waiting: dict[Who, int] = {}
        """Connection → bytes, in order of arrival."""
        self._pressed_since_ms = 0
        """When the first of the current waits began."""

    @property
    def waiting(self) -> int:
        """The number of waiting connections."""
        return len(self._waiting)

    def ask(self, who: Who, size: int, now_ms: int) -> bool:
        """Whether there is room now; otherwise `who` is queued."""
        assert who not in self._given, "one request at a time"
        assert who not in self._waiting, "one request at a time"
        if not self._waiting and self._fits(size):
            self._give(who, size, now_ms)
            return True
        if not self._waiting:
            self._pressed_since_ms = now_ms
        self._waiting[who] = size
        return False

    def release(self, who: Who, now_ms: int) -> list[Who]:
        """Free its room, or its place in the queue; returns the connections that get room now."""
        if who in self._given:
            self.used -= self._given.pop(who).size
        self._waiting.pop(who, None)
        lucky: list[Who] = []
        for each, size in self._waiting.items():
            if not self._fits(size):
                break
            self._give(each, size, now_ms)
            lucky.append(each)
        for each in lucky:
            del self._waiting[each]
        return lucky

    def overdue(self, now_ms: int) -> list[Who]:
        """The connections that have delayed others for too long."""
        if not self._waiting:
            return []
        since_ms = self._pressed_since_ms
        return [who for who, given in self._given.items() if given.is_overdue(since_ms, now_ms)]

    def _fits(self, size: int) -> bool:
        return not self.used or self.used + size <= self._bytes_max

    def _give(self, who: Who, size: int, now_ms: int) -> None:
        self._given[who] = _Given(size, now_ms)
        self.used += size
