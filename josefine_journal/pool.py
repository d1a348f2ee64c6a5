"""The reader pool's decisions: which caller gets a reader, how long a caller waits, and which
reader is closed. No I/O: time is an argument.

Rules: at most `readers_max` readers are open; callers wait in order of arrival, and time out after
`wait_ms`; the reader that was used last is used next, so that surplus readers become idle and are
closed after `idle_ms`; nobody waits while a reader is idle.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import NewType

Reader = NewType("Reader", int)
Caller = NewType("Caller", int)

IDLE_MS = 600_000
WAIT_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one pool."""

    readers_max: int
    idle_ms: int = IDLE_MS
    wait_ms: int = WAIT_MS


def readers_max(multiplier: float, cores: int) -> int:
    """`multiplier` readers per core, at least one."""
    return max(1, round(multiplier * cores))


class Pool:
    """The only mutable class. A reader is a number here; a new reader gets the next number."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._busy: set[Reader] = set()
        self._idle: list[tuple[int, Reader]] = []
        """(idle since, reader); the most recently used one comes last."""
        self._waiting: OrderedDict[Caller, int] = OrderedDict()
        """Caller → end of its wait, in order of arrival."""
        self._made = 0

    @property
    def size(self) -> int:
        """Number of open readers."""
        return len(self._busy) + len(self._idle)

    def ask(self, caller: Caller, now_ms: int) -> Reader | None:
        """A reader for the caller, perhaps a new one; None: the caller waits."""
        if self._idle:
            _, reader = self._idle.pop()
        elif self.size < self._limits.readers_max:
            self._made += 1
            reader = Reader(self._made)
        else:
            self._waiting[caller] = now_ms + self._limits.wait_ms
            return None
        self._busy.add(reader)
        return reader

    def give_back(self, reader: Reader, now_ms: int) -> Caller | None:
        """The caller that gets the returned reader; None: nobody waits."""
        assert reader in self._busy, reader
        if self._waiting:
            return self._waiting.popitem(last=False)[0]
        self._busy.remove(reader)
        self._idle.append((now_ms, reader))
        return None

    def leave(self, caller: Caller) -> None:
        """The caller no longer waits."""
        self._waiting.pop(caller, None)

    def late(self, now_ms: int) -> list[Caller]:
        """The callers that timed out; they no longer wait."""
        found = [caller for caller, until_ms in self._waiting.items() if until_ms <= now_ms]
        for caller in found:
            del self._waiting[caller]
        return found

    def idle(self, now_ms: int) -> list[Reader]:
        """The readers that were idle too long; they are removed from the pool."""
        since_ms = now_ms - self._limits.idle_ms
        found = [reader for at_ms, reader in self._idle if at_ms <= since_ms]
        self._idle = [each for each in self._idle if each[0] > since_ms]
        return found

    def next_ms(self) -> int | None:
        """The next time at which a caller or an idle reader times out; None: none will."""
        times = [self._idle[0][0] + self._limits.idle_ms] if self._idle else []
        if self._waiting:
            times.append(next(iter(self._waiting.values())))
        return min(times, default=None)
