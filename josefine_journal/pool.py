"""Who of many gets one of few readers, for how long somebody waits, and which reader is closed.
Decides, no I/O: time is an argument.

Rules: at most `readers_max` at once; who has to wait gets one in the order of asking, or is told
after `wait_ms`; the reader that was used last is used next, so that those too many become idle and
go after `idle_ms`; nobody waits while one is idle.
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
    """Of one pool."""

    readers_max: int
    idle_ms: int = IDLE_MS
    wait_ms: int = WAIT_MS


def readers_max(multiplier: float, cores: int) -> int:
    """So many a core, and one at least."""
    return max(1, round(multiplier * cores))


class Pool:
    """The only mutable part; a reader is a number here, a new one more than those before."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._busy: set[Reader] = set()
        self._idle: list[tuple[int, Reader]] = []
        """Since when; used last, last."""
        self._waiting: OrderedDict[Caller, int] = OrderedDict()
        """Until when; asked first, first."""
        self._made = 0

    @property
    def size(self) -> int:
        """Readers that are open."""
        return len(self._busy) + len(self._idle)

    def ask(self, caller: Caller, now_ms: int) -> Reader | None:
        """A reader for the caller, perhaps a new one; None: it waits for its turn."""
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
        """Whose turn it is to have that reader; None: nobody waits."""
        assert reader in self._busy, reader
        if self._waiting:
            return self._waiting.popitem(last=False)[0]
        self._busy.remove(reader)
        self._idle.append((now_ms, reader))
        return None

    def leave(self, caller: Caller) -> None:
        """It waits no more."""
        self._waiting.pop(caller, None)

    def late(self, now_ms: int) -> list[Caller]:
        """Who waited too long, and waits no more."""
        found = [caller for caller, until_ms in self._waiting.items() if until_ms <= now_ms]
        for caller in found:
            del self._waiting[caller]
        return found

    def idle(self, now_ms: int) -> list[Reader]:
        """Which readers were idle too long: they are no more of this pool."""
        since_ms = now_ms - self._limits.idle_ms
        found = [reader for at_ms, reader in self._idle if at_ms <= since_ms]
        self._idle = [each for each in self._idle if each[0] > since_ms]
        return found

    def next_ms(self) -> int | None:
        """When somebody is late or a reader idle too long; None: never, as it is."""
        times = [self._idle[0][0] + self._limits.idle_ms] if self._idle else []
        if self._waiting:
            times.append(next(iter(self._waiting.values())))
        return min(times, default=None)
