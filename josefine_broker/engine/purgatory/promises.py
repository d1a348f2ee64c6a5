"""Two kinds of delayed operations: one that waits for a single answer (`Promise`), and one that
waits until each of its partitions is decided (`AwaitEach`).

Rules: as in `engine/purgatory/purgatory.py`; an answer that comes late, or that no client waits for
any more, changes nothing.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from josefine_broker.engine.purgatory.purgatory import Parked, ParkedRequests, PartitionKey


class Promise(Parked):
    """A request that its holder answers with `keep`; after the deadline, `late` answers it. Events
    do not wake it."""

    __slots__ = ("_late", "_parked")

    def __init__(
        self, parked: ParkedRequests, deadline_ms: int, late: Callable[[], object]
    ) -> None:
        """Starts to wait in `parked` at once."""
        super().__init__(deadline_ms)
        self._parked = parked
        self._late = late
        parked.park(self)

    @property
    def is_wanted(self) -> bool:
        """Whether a client still waits for it. Callable from any thread."""
        return self in self._parked

    def keep(self, build: Callable[[], object]) -> None:
        """Answer with the result of `build`, which is not called if no client waits any more."""
        if self.is_wanted:
            self._parked.forget(self)
            self.complete(build())

    def expire(self, now_ms: int) -> None:
        self.complete(self._late())


class Translated(Promise):
    """A request that waits for a coordinator: its ticket and the request's token in one."""

    __slots__ = ("_translate",)

    is_cut_short = True

    def __init__(
        self,
        parked: ParkedRequests,
        deadline_ms: int,
        translate: Callable[[Any], object],
        unanswered: object,
    ) -> None:
        """`translate` makes a response from an answer; `unanswered` is the answer after the
        deadline, and of a broker that stops."""
        super().__init__(parked, deadline_ms, lambda: translate(unanswered))
        self._translate = translate

    def answer(self, answer: object) -> None:
        """Answer, if the client still waits."""
        self.keep(lambda: self._translate(answer))


class Pending(Protocol):
    """The part of a request that waits for one partition."""

    @property
    def tp(self) -> PartitionKey: ...

    def decide(self) -> bool:
        """Check the condition, and settle if it is decided; returns whether it is."""
        ...

    def give_up(self) -> None:
        """Settle as not decided in time."""
        ...


def _nothing() -> object:
    raise AssertionError("the request is answered")


_NONE: dict[PartitionKey, list[Pending]] = {}
"""What an answered request waits for. Never changed."""


class AwaitEach(Parked):
    """A request answered by `build` once each of its `pending` parts is decided. An event of a
    partition checks that partition's parts; any other event checks all."""

    __slots__ = ("_build", "_pending")

    def __init__(
        self, pending: Iterable[Pending], deadline_ms: int, build: Callable[[], object]
    ) -> None:
        super().__init__(deadline_ms)
        self._build = build
        self._pending: dict[PartitionKey, list[Pending]] = {}
        for each in pending:
            self._pending.setdefault(each.tp, []).append(each)

    def park(self, parked: ParkedRequests, *, brokers: bool = False) -> "AwaitEach":
        """Start to wait for events of these partitions (and of broker liveness)."""
        parked.park(self, partitions=self._pending, brokers=brokers)
        return self

    def complete(self, response: object) -> None:
        super().complete(response)
        # Both often refer to this request, and only the collector would free it.
        self._build, self._pending = _nothing, _NONE

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        pending = self._pending
        for tp in tuple(pending) if partition is None else (partition,):
            waiting = pending.get(tp)
            if waiting is None:
                continue  # decided before
            if len(waiting) > 1:  # a partition may be named twice
                waiting[:-1] = [each for each in waiting[:-1] if not each.decide()]
            if waiting[-1].decide():
                waiting.pop()
            if not waiting:
                del pending[tp]
        if pending:
            return False
        self.complete(self._build())
        return True

    def expire(self, now_ms: int) -> None:
        for pending in self._pending.values():
            for each in pending:
                each.give_up()
        self.complete(self._build())
