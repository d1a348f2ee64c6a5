"""Requests that wait: for news of partitions or brokers, for an answer that somebody has in hand
(`engine/awaiting.py`), or for their deadline.

Rules: a parked request completes exactly once, by news that it waits for, by its deadline, or
never when it was cancelled (its connection is gone). Deadlines are absolute and monotonic. A
request that is done, or forgotten, is woken no more; only the heap of deadlines may hold it still.

There are three kinds of news, each with its table and its own call: who has some names whom it
wakes. A topic may be called anything: what waits for a follower is out of a partition's reach.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from josefine_broker.base.errors import Fatal

PartitionKey = tuple[str, int]
"""Topic and index. A plain tuple will do: the data path has one."""
Key = TypeVar("Key", bound=Hashable)


class Hangup(NamedTuple):
    """An answer behind which the connection ends: its client is better off elsewhere."""

    reason: str
    answer: object | None = None
    """None: none is owed, or none is known. A producer takes that as "perhaps stored"."""


class Parked:
    """One waiting request. Subclasses say when it can be answered, and with what."""

    __slots__ = ("_make", "deadline_ms", "done", "follower", "on_done", "partitions", "response")

    outlives_client = False
    """Whether it has something to do at its end, also for nobody."""
    is_cut_short = False
    """Whether a broker that stops ends the wait, as if its deadline had come: what it waits for may
    take long."""

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.done = False
        self.response: object | None = None
        self.on_done: Callable[[Parked], None] | None = None
        self.partitions: tuple[PartitionKey, ...] = ()
        """Whose news it waits for,"""
        self.follower: int | None = None
        """and which follower's."""
        self._make: Callable[[object], object] | None = None

    def make_of(self, make: Callable[[object], object]) -> None:
        """What is answered is what `make` makes of the answer (or of what was made of it)."""
        before = self._make
        self._make = make if before is None else lambda answer: make(before(answer))

    def complete(self, response: object) -> None:
        """Answer, and tell the connection. A second answer is a broken invariant."""
        if self.done:
            raise Fatal("a parked request was completed twice")
        self.done = True
        self.response = response if self._make is None else self._make(response)
        if self.on_done is not None:
            self.on_done(self)

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        """There is news, of this partition or (None) of something else that it is parked under:
        complete if that is enough; whether it was."""
        raise NotImplementedError

    def expire(self, now_ms: int) -> None:
        """The deadline is here: complete with what there is."""
        raise NotImplementedError


class ParkedRequests:
    """All waiting requests of a broker, by what they wait for and by deadline."""

    __slots__ = (
        "_deadlines", "_for_brokers", "_for_follower", "_for_partition", "_sequence", "_waiting",
        "follower_news",
    )  # fmt: skip

    def __init__(self) -> None:
        self._for_partition: dict[PartitionKey, dict[Parked, None]] = {}
        """High watermark, log start, role, ISR."""
        self._for_follower: dict[int, dict[Parked, None]] = {}
        """Any of the partitions that a broker copies from this one: one key for all of them."""
        self._for_brokers: dict[Parked, None] = {}
        """Who is live."""
        self._deadlines: list[tuple[int, int, Parked]] = []
        self._waiting: set[Parked] = set()
        self._sequence = 0
        self.follower_news = 0
        """How often there was some for a follower, whether its fetch was waiting or not: one that
        is being read must not miss it."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> Iterator[Parked]:
        """All of them, in no order."""
        return iter(self._waiting)

    def __contains__(self, parked: Parked) -> bool:
        """Whether somebody still waits for it. On any thread."""
        return parked in self._waiting

    def park(
        self,
        parked: Parked,
        *,
        partitions: Iterable[PartitionKey] = (),
        follower: int | None = None,
        brokers: bool = False,
    ) -> None:
        """Hold `parked` until there is news of one of `partitions`, for `follower`, or of
        `brokers`, or its deadline passes."""
        assert not parked.done
        assert parked not in self._waiting
        parked.partitions = tuple(partitions)
        parked.follower = follower
        for each in parked.partitions:
            self._for_partition.setdefault(each, {})[parked] = None
        if follower is not None:
            self._for_follower.setdefault(follower, {})[parked] = None
        if brokers:
            self._for_brokers[parked] = None
        self._waiting.add(parked)
        self._sequence += 1
        heappush(self._deadlines, (parked.deadline_ms, self._sequence, parked))

    def wake(self, partition: PartitionKey, now_ms: int) -> None:
        """Let every request that waits for this partition look again."""
        waiting = self._for_partition.get(partition)
        if waiting:
            self._look(waiting, partition, now_ms)

    def wake_follower(self, broker_id: int, now_ms: int) -> None:
        """Some partition has news for this follower: its waiting fetch looks again."""
        self.follower_news += 1
        waiting = self._for_follower.get(broker_id)
        if waiting:
            self._look(waiting, None, now_ms)

    def wake_for_brokers(self, now_ms: int) -> None:
        """Who is live has changed: let those look again that wait for that."""
        self._look(self._for_brokers, None, now_ms)

    def _look(self, waiting: Iterable[Parked], partition: PartitionKey | None, now_ms: int) -> None:
        for parked in tuple(waiting):
            if parked in self._waiting and parked.try_complete(partition, now_ms):
                self.forget(parked)

    def cancel(self, parked: Parked) -> None:
        """Its client waits no longer."""
        if not parked.outlives_client:
            self.forget(parked)

    def forget(self, parked: Parked) -> None:
        """Hold it no longer. Twice does no harm."""
        if parked not in self._waiting:
            return
        self._waiting.remove(parked)
        for each in parked.partitions:
            _remove(self._for_partition, each, parked)
        if parked.follower is not None:
            _remove(self._for_follower, parked.follower, parked)
        self._for_brokers.pop(parked, None)
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


def _remove(table: dict[Key, dict[Parked, None]], key: Key, parked: Parked) -> None:
    waiting = table.get(key)
    if waiting is not None:
        waiting.pop(parked, None)
        if not waiting:
            del table[key]
