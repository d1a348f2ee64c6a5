"""Requests that wait: for news of partitions or brokers, for an answer that somebody has in hand
(`engine/purgatory/promises.py`), or for their deadline.

Rules: a parked request completes exactly once, by news that it waits for, by its deadline, or
never when it was cancelled (its connection is gone). Deadlines are absolute and monotonic. A
request that is done, or forgotten, is woken no more; only the heap of deadlines may hold it still.

Nothing here is re-entrant, and nothing needs to be:
- `complete` only notes the response. Whoever waits for it (`on_done`: a connection, which then
  serves its next request) is called from `run_completed`, by the host, in a turn of its own;
- news that arises while waiting requests look at earlier news is looked at after that.

There are three kinds of news, each with its table and its own call: who has some names whom it
wakes. A topic may be called anything: what waits for a follower is out of a partition's reach.
"""

from collections import deque
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

    __slots__ = (
        "_make", "_table", "deadline_ms", "done", "follower", "on_done", "partitions", "response",
    )  # fmt: skip

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
        """Called once it is done, from `ParkedRequests.run_completed`, if set before that."""
        self.partitions: tuple[PartitionKey, ...] = ()
        """Whose news it waits for,"""
        self.follower: int | None = None
        """and which follower's."""
        self._make: Callable[[object], object] | None = None
        self._table: ParkedRequests | None = None
        """Where it was parked last."""

    def make_of(self, make: Callable[[object], object]) -> None:
        """What is answered is what `make` makes of the answer (or of what was made of it)."""
        before = self._make
        self._make = make if before is None else lambda answer: make(before(answer))

    def complete(self, response: object) -> None:
        """Note the response; nobody is called. A second one is a broken invariant."""
        if self.done:
            raise Fatal("a parked request was completed twice")
        self.done = True
        self.response = response if self._make is None else self._make(response)
        if self._table is not None:
            self._table.note_completed(self)
        else:
            assert self.on_done is None, "who waits for a request that was never parked?"

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        """There is news, of this partition or (None) of something else that it is parked under:
        complete if that is enough; whether it was."""
        raise NotImplementedError

    def expire(self, now_ms: int) -> None:
        """The deadline is here: complete with what there is."""
        raise NotImplementedError


class _News(NamedTuple):
    """Whoever is to look again, and at what."""

    waiting: tuple[Parked, ...]
    partition: PartitionKey | None
    now_ms: int


def _nobody() -> None:
    """Nobody is to be told."""


class ParkedRequests:
    """All waiting requests of a broker, by what they wait for and by deadline."""

    __slots__ = (
        "_completed", "_deadlines", "_for_brokers", "_for_follower", "_for_partition",
        "_is_answering", "_is_looking", "_news", "_sequence", "_waiting", "follower_news",
        "on_completed",
    )  # fmt: skip

    def __init__(self) -> None:
        self._for_partition: dict[PartitionKey, dict[Parked, None]] = {}
        """High watermark, log start, role, ISR."""
        self._for_follower: dict[int, dict[Parked, None]] = {}
        """Any of the partitions that a broker copies from this one: one key for all of them."""
        self._for_brokers: dict[None, dict[Parked, None]] = {}
        """Who is live: one key for everybody."""
        self._deadlines: list[tuple[int, int, Parked]] = []
        self._waiting: set[Parked] = set()
        self._sequence = 0
        self.follower_news = 0
        """How often there was some for a follower, whether its fetch was waiting or not: one that
        is being read must not miss it."""
        self._news: deque[_News] = deque()
        """What arose while somebody looked."""
        self._is_looking = False
        self._completed: deque[Parked] = deque()
        """Done, and `on_done` is not called yet."""
        self._is_answering = False
        self.on_completed: Callable[[], None] = _nobody
        """Called when `run_completed` has something to do again; the host's."""

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
        parked._table = self
        parked.partitions = tuple(partitions)
        parked.follower = follower
        for each in parked.partitions:
            self._for_partition.setdefault(each, {})[parked] = None
        if follower is not None:
            self._for_follower.setdefault(follower, {})[parked] = None
        if brokers:
            self._for_brokers.setdefault(None, {})[parked] = None
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
        waiting = self._for_brokers.get(None)
        if waiting:
            self._look(waiting, None, now_ms)

    def _look(self, waiting: Iterable[Parked], partition: PartitionKey | None, now_ms: int) -> None:
        """Let each of `waiting` look once; then those for whom there is news because of it."""
        news = self._news
        # A copy: to look is to complete, which takes the request out of every table.
        news.append(_News(tuple(waiting), partition, now_ms))
        if self._is_looking:
            return  # the outermost call goes on with it
        self._is_looking = True
        try:
            while news:
                each = news.popleft()
                still_to_look = iter(each.waiting)
                try:
                    for parked in still_to_look:
                        if parked not in self._waiting:
                            continue
                        if parked.try_complete(each.partition, each.now_ms):
                            self.forget(parked)
                except BaseException:
                    # One request's fault must not cost the others their news: they look next time.
                    news.appendleft(each._replace(waiting=tuple(still_to_look)))
                    raise
        finally:
            self._is_looking = False

    # What is done, and whoever waits for it.

    def note_completed(self, parked: Parked) -> None:
        """It has its response: it waits no more, and whom it is for is called in his turn."""
        self.forget(parked)
        if parked.on_done is not None:
            self._completed.append(parked)
            if len(self._completed) == 1 and not self._is_answering:
                self.on_completed()

    @property
    def has_completed(self) -> bool:
        """Whether `run_completed` has something to do."""
        return bool(self._completed)

    def run_completed(self) -> None:
        """Call `on_done` of what is done, and of what that completes, in order of completion.

        For the host, from its event loop: within a walk over waiting requests, or within such a
        call, it would make the next request part of the one before.
        """
        assert not self._is_looking, "somebody looks at news: answers wait for their turn"
        assert not self._is_answering, "an answer is under way: the next one waits for its turn"
        self._is_answering = True
        try:
            while self._completed:
                parked = self._completed.popleft()
                if parked.on_done is not None:  # its client may have gone meanwhile
                    parked.on_done(parked)
        finally:
            self._is_answering = False

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
        _remove(self._for_brokers, None, parked)
        # The heap drops the forgotten lazily; without this bound a busy long poller would fill it.
        if len(self._deadlines) > 64 + 2 * len(self._waiting):
            self._deadlines = [each for each in self._deadlines if each[2] in self._waiting]
            heapify(self._deadlines)

    def tick(self, now_ms: int) -> None:
        """Expire every request whose deadline has come. For the host, from its event loop."""
        assert not self._is_looking, "somebody looks at news: time passes after that"
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
