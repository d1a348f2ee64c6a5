"""Requests that wait: for bytes to fetch, for metadata changes, or for their deadline.

Rules: a parked request completes exactly once, by a wake-up of one of its keys, by its deadline, or
never when it was cancelled (its connection is gone). Deadlines are absolute and monotonic. A
request in `ParkedRequests` is not done; a done one is in none of its tables.
"""

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from josefine_broker.base.errors import Fatal


class Hangup(NamedTuple):
    """An answer behind which the connection ends: its client is better off elsewhere."""

    reason: str
    answer: object | None = None
    """None: none is owed, or none is known. A producer takes that as "perhaps stored"."""


class Parked:
    """One waiting request. Subclasses say when it can be answered, and with what."""

    __slots__ = ("deadline_ms", "done", "keys", "on_done", "response")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.done = False
        self.response: object | None = None
        self.on_done: Callable[[Parked], None] | None = None
        self.keys: tuple[Hashable, ...] = ()

    def complete(self, response: object) -> None:
        """Answer, and tell the connection. A second answer is a broken invariant."""
        if self.done:
            raise Fatal("a parked request was completed twice")
        self.done = True
        self.response = response
        if self.on_done is not None:
            self.on_done(self)

    def try_complete(self, key: Hashable, now_ms: int) -> bool:
        """`key` has news: complete if that is enough; whether it was."""
        raise NotImplementedError

    def expire(self, now_ms: int) -> None:
        """The deadline is here: complete with what there is."""
        raise NotImplementedError


class ParkedRequests:
    """All waiting requests of a broker, by key and by deadline."""

    __slots__ = ("_by_key", "_deadlines", "_sequence", "_waiting")

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[Parked, None]] = {}
        self._deadlines: list[tuple[int, int, Parked]] = []
        self._waiting: set[Parked] = set()
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, parked: Parked) -> bool:
        """Whether somebody still waits for it. On any thread."""
        return parked in self._waiting

    def park(self, parked: Parked, keys: Iterable[Hashable]) -> None:
        """Hold `parked` until one of `keys` is woken or its deadline passes."""
        assert not parked.done
        assert parked not in self._waiting
        parked.keys = tuple(keys)
        for key in parked.keys:
            self._by_key.setdefault(key, {})[parked] = None
        self._waiting.add(parked)
        self._sequence += 1
        heappush(self._deadlines, (parked.deadline_ms, self._sequence, parked))

    def wake(self, key: Hashable, now_ms: int) -> None:
        """Let every request that waits for `key` look again."""
        waiting = self._by_key.get(key)
        if not waiting:
            return
        for parked in tuple(waiting):
            if parked in self._waiting and parked.try_complete(key, now_ms):
                self.forget(parked)

    def forget(self, parked: Parked) -> None:
        """Hold it no longer: it is done, or its connection is gone. Twice does no harm."""
        if parked not in self._waiting:
            return
        self._waiting.remove(parked)
        for key in parked.keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(parked, None)
                if not waiting:
                    del self._by_key[key]
        # The heap drops the forgotten lazily; without this bound a busy long poller would fill it.
        if len(self._deadlines) > 64 + 2 * len(self._waiting):
            self._deadlines = [each for each in self._deadlines if each[2] in self._waiting]
            heapify(self._deadlines)

    def tick(self, now_ms: int) -> None:
        """Expire every request whose deadline has come."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            parked = heappop(self._deadlines)[2]
            if parked in self._waiting:
                self.forget(parked)
                parked.expire(now_ms)

    def next_deadline_ms(self) -> int | None:
        while self._deadlines and self._deadlines[0][2] not in self._waiting:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
