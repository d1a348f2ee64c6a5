"""Memory for large requests that are being received: all connections share a bound, in the order in
which their requests began, and who finds no room is not read until there is some.

Rules: a request is given room for all of it or none, so that whoever has room can finish, and the
sum is never more than the bound (one alone may be). Who has room and keeps it while others wait
holds them up: after a time that grows with its request it is overdue.
"""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

GRACE_MS = 5_000
"""So long a request of any size may take while others wait."""
BYTES_PER_MS = 10_000
"""What is larger has more time: 10 MB a second."""

Who = TypeVar("Who", bound=Hashable)


class _Given(NamedTuple):
    size: int
    since_ms: int

    def is_overdue(self, pressed_since_ms: int, now_ms: int) -> bool:
        may_take_ms = GRACE_MS + self.size // BYTES_PER_MS
        return now_ms - max(self.since_ms, pressed_since_ms) >= may_take_ms


class RequestMemory(Generic[Who]):
    """Mutable: who has room, and who waits for it. Each has one request at a time."""

    __slots__ = ("_bytes_max", "_given", "_pressed_since_ms", "_waiting", "used")

    def __init__(self, bytes_max: int) -> None:
        self.used = 0
        """Bytes that are given."""
        self._bytes_max = bytes_max
        self._given: dict[Who, _Given] = {}
        self._waiting: dict[Who, int] = {}
        """In order; who → bytes."""
        self._pressed_since_ms = 0
        """When somebody began to wait."""

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def ask(self, who: Who, size: int, now_ms: int) -> bool:
        """Whether there is room now; else `who` is in the queue."""
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
        """It needs nothing any more, nor waits; who has room now, in order."""
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
        """Who has held others up for too long."""
        if not self._waiting:
            return []
        since_ms = self._pressed_since_ms
        return [who for who, given in self._given.items() if given.is_overdue(since_ms, now_ms)]

    def _fits(self, size: int) -> bool:
        return not self.used or self.used + size <= self._bytes_max

    def _give(self, who: Who, size: int, now_ms: int) -> None:
        self._given[who] = _Given(size, now_ms)
        self.used += size
