"""The two ways in which a request waits for more than its deadline: for one answer that somebody
has in hand, or for each of its partitions to be decided.

Rules: as in `engine/purgatory/purgatory.py`; whoever is late, or asked by nobody any more, changes
nothing.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from josefine_broker.engine.purgatory.purgatory import Parked, ParkedRequests, PartitionKey


class Promise(Parked):
    """Answered by who holds it, with `keep`; at the deadline by `late`. No news wakes it."""

    __slots__ = ("_late", "_parked")

    def __init__(
        self, parked: ParkedRequests, deadline_ms: int, late: Callable[[], object]
    ) -> None:
        """Waits from now on, in `parked`."""
        super().__init__(deadline_ms)
        self._parked = parked
        self._late = late
        parked.park(self)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits for it. On any thread."""
        return self in self._parked

    def keep(self, build: Callable[[], object]) -> None:
        """Answer with what `build` makes; nothing is made for who waits no longer."""
        if self.is_wanted:
            self._parked.forget(self)
            self.complete(build())

    def expire(self, now_ms: int) -> None:
        self.complete(self._late())


class Pending(Protocol):
    """What a request waits for in one partition."""

    @property
    def tp(self) -> PartitionKey: ...

    def decide(self) -> bool:
        """Look how it stands; whether it is decided now."""
        ...

    def give_up(self) -> None:
        """It was not decided in time."""
        ...


class AwaitEach(Parked):
    """Answered by `build` once each of its `pending` is decided; a partition's are looked at when
    there is news of it, all of them when there is news of something else."""

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
        """Wait from now on, for news of these partitions (and of who is live)."""
        parked.park(self, partitions=self._pending, brokers=brokers)
        return self

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        pending = self._pending
        for tp in tuple(pending) if partition is None else (partition,):
            waiting = pending.get(tp)
            if waiting is None:
                continue  # it was decided before
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
