"""The purgatory: requests that wait for an event of a partition or broker, for an answer in
preparation (`engine/purgatory/promises.py`), or for their deadline.

Rules: a parked request completes exactly once, by an event that it waits for or by its deadline,
and never after it was cancelled (its connection is gone). Deadlines are absolute and monotonic. A
request that is done or forgotten is not woken again; only the heap of deadlines may still hold it.

Nothing here is re-entrant, and nothing needs to be:
- `complete` only notes the response. The connection that waits for it (`on_done`) would serve its
  next request from there, so the host calls it later, from `run_completed`; only `send_now` is
  called at once, and serves nothing;
- an event that is caused while waiting requests check an earlier event is handled after that one.

There are four kinds of events (partition, share partition of a group, follower, broker liveness),
each with its own table and call. Separate tables keep apart followers, groups and topics, whose
names may be anything.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, TypeVar

from josefine_broker.base.errors import Fatal
from josefine_broker.engine.purgatory.follower_news import FollowerNews

PartitionKey = tuple[str, int]
"""Topic and index: the plain tuple that the data path has anyway."""
Key = TypeVar("Key", bound=Hashable)
_new = tuple.__new__


class Hangup(NamedTuple):
    """An answer after which the connection is closed: its client should try another broker."""

    reason: str
    answer: object | None = None
    """None: no answer is expected, or none is known. A producer takes that as "maybe stored"."""


class Encoded(NamedTuple):
    """An answer in the wire format already."""

    buffers: list[bytes | bytearray | memoryview]


class Parked:
    """One waiting request. Subclasses define when it can be answered, and with what."""

    __slots__ = (
        "_make", "_place", "_table", "deadline_ms", "done", "follower", "group_id", "on_done",
        "partitions", "response", "send_now",
    )  # fmt: skip

    is_urgent = False
    """Whether other brokers work while the rest of an event is handled here, once they have the
    answer."""
    outlives_client = False
    """Whether it must still be completed after its client has gone."""
    is_cut_short = False
    """Whether a stopping broker ends the wait as if the deadline had come, because the event may be
    far away."""

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.done = False
        self.response: object | None = None
        self.on_done: Callable[[Parked], None] | None = None
        """Called when it is done, from `ParkedRequests.run_completed`, if set before that."""
        self.send_now: Callable[[Parked], bool] | None = None
        """Called when it is done, from within the event: sends the answer, if the connection has
        nothing else to do, and serves no request; returns whether it did. If not, `on_done` is
        called."""
        self.partitions: tuple[PartitionKey, ...] = ()
        """The partitions whose events it waits for,"""
        self.group_id: str | None = None
        """the share group of whose records of these partitions it waits for events, too,"""
        self.follower: int | None = None
        """and the follower."""
        self._make: Callable[[object], object] | None = None
        self._table: ParkedRequests | None = None
        """The table that it was last parked in."""
        self._place: list[Any] | None = None
        """Its place among the deadlines, while it waits."""

    def make_of(self, make: Callable[[object], object]) -> None:
        """Convert the answer with `make`, after earlier conversions."""
        before = self._make
        self._make = make if before is None else lambda answer: make(before(answer))

    def complete(self, response: object) -> None:
        """Note the response without calling anybody. A second call is a broken invariant."""
        if self.done:
            raise Fatal("a parked request was completed twice")
        self.done = True
        # Taken: it is often a method of the request, and only the collector would free both.
        make, self._make = self._make, None
        self.response = response if make is None else make(response)
        if self._table is not None:
            self._table.note_completed(self)
        else:
            assert self.on_done is None, "who waits for a request that was never parked?"

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        """Handle an event, of this partition or (None) of something else that it waits for:
        complete if that is enough; returns whether it was."""
        raise NotImplementedError

    def expire(self, now_ms: int) -> None:
        """Complete with what is there: the deadline has come."""
        raise NotImplementedError


class _News(NamedTuple):
    """Requests that must be checked again, and why."""

    waiting: tuple[Parked, ...]
    partition: PartitionKey | None
    now_ms: int


class _Deadlines:
    """Requests by deadline, those with the same one in order of arrival. Of a request that is
    answered before its deadline an empty place stays until its turn comes, or until there are too
    many of them: the request may have megabytes of records."""

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[list[Any]] = []
        """Places: deadline, sequence number, request or None."""
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, parked: Parked) -> None:
        self._sequence += 1
        parked._place = [parked.deadline_ms, self._sequence, parked]
        heappush(self._heap, parked._place)

    def remove(self, parked: Parked, waiting: int) -> None:
        """Empty its place. `waiting`: how many are not empty afterwards."""
        place, parked._place = parked._place, None
        assert place is not None
        place[2] = None
        if len(self._heap) > 64 + 2 * waiting:
            self._heap = [each for each in self._heap if each[2] is not None]
            heapify(self._heap)

    def first_ms(self) -> int | None:
        """The first deadline of a request that waits."""
        while self._heap and self._heap[0][2] is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Parked | None:
        """The first request whose deadline has come. It keeps its place."""
        first_ms = self.first_ms()
        return None if first_ms is None or first_ms > now_ms else self._heap[0][2]


def _nobody() -> None:
    """The default callback, which does nothing."""


class ParkedRequests:
    """All waiting requests of a broker, by event and by deadline."""

    __slots__ = (
        "_completed", "_deadlines", "_for_brokers", "_for_follower", "_for_group",
        "_for_partition", "_is_answering", "_is_looking", "_news", "_waiting", "followers",
        "on_completed",
    )  # fmt: skip

    def __init__(self) -> None:
        self._for_partition: dict[PartitionKey, dict[Parked, None]] = {}
        """Events: high watermark, log start offset, role, ISR."""
        self._for_group: dict[str, dict[Parked, None]] = {}
        """Events: records of a share partition of this group came back, or it may be used."""
        self._for_follower: dict[int, dict[Parked, None]] = {}
        """Event: any partition that this broker copies from us; one key for all of them."""
        self._for_brokers: dict[None, dict[Parked, None]] = {}
        """Event: broker liveness; one key for all."""
        self._deadlines = _Deadlines()
        self._waiting: set[Parked] = set()
        self.followers = FollowerNews()
        self._news: deque[_News] = deque()
        """Events that were caused while earlier ones were handled."""
        self._is_looking = False
        self._completed: deque[Parked] = deque()
        """Done, with `on_done` still to be called."""
        self._is_answering = False
        self.on_completed: Callable[[], None] = _nobody
        """Called when `run_completed` has new work; set by the host."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> Iterator[Parked]:
        """All of them, in arbitrary order."""
        return iter(self._waiting)

    def __contains__(self, parked: Parked) -> bool:
        """Whether a client still waits for it. Callable from any thread."""
        return parked in self._waiting

    def park(
        self,
        parked: Parked,
        *,
        partitions: Iterable[PartitionKey] = (),
        group_id: str | None = None,
        follower: int | None = None,
        brokers: bool = False,
    ) -> None:
        """Hold `parked` until an event of one of `partitions`, of one of them in the share group
        `group_id`, of `follower`, or of `brokers` completes it, or its deadline passes."""
        assert not parked.done
        assert parked not in self._waiting
        parked._table = self
        parked.partitions = tuple(partitions)
        parked.group_id = group_id
        parked.follower = follower
        for each in parked.partitions:
            self._for_partition.setdefault(each, {})[parked] = None
        if group_id is not None:
            self._for_group.setdefault(group_id, {})[parked] = None
        if follower is not None:
            self._for_follower.setdefault(follower, {})[parked] = None
        if brokers:
            self._for_brokers.setdefault(None, {})[parked] = None
        self._waiting.add(parked)
        self._deadlines.add(parked)

    def awaits(self, partition: PartitionKey) -> bool:
        """Whether an event of this partition concerns anybody: otherwise `wake` does nothing."""
        return partition in self._for_partition or self.followers.is_noting

    def wake(self, partition: PartitionKey, now_ms: int) -> None:
        """Check every request that waits for this partition."""
        self.followers.note(partition)
        waiting = self._for_partition.get(partition)
        if waiting:
            self._look(waiting, partition, now_ms)

    def wake_group(self, group_id: str, partition: PartitionKey, now_ms: int) -> None:
        """Check every request of this share group that waits for this partition. A thousand groups
        may wait for it, and the event concerns one of them."""
        waiting = self._for_group.get(group_id)
        if waiting:
            concerned = [each for each in waiting if partition in each.partitions]
            self._look(concerned, partition, now_ms)

    def wake_follower(self, broker_id: int, now_ms: int) -> None:
        """Check the waiting fetch of this follower: one of its partitions has an event."""
        self.followers.events += 1
        waiting = self._for_follower.get(broker_id)
        if waiting:
            self._look(waiting, None, now_ms)

    def wake_for_brokers(self, now_ms: int) -> None:
        """Check the requests that wait for a change of broker liveness."""
        waiting = self._for_brokers.get(None)
        if waiting:
            self._look(waiting, None, now_ms)

    def _look(
        self, waiting: Collection[Parked], partition: PartitionKey | None, now_ms: int
    ) -> None:
        """Check each of `waiting` once; then the requests of events that this has caused."""
        news = self._news
        is_one = len(waiting) == 1 and not (self._is_looking or news)
        if not is_one:
            # A copy: a check may complete the request, which removes it from every table.
            news.append(_new(_News, (tuple(waiting), partition, now_ms)))
            if self._is_looking:
                return  # the outermost call continues with it
        self._is_looking = True
        try:
            if is_one:  # as mostly: it takes no place in the queue
                (parked,) = waiting
                if parked.try_complete(partition, now_ms):
                    self.forget(parked)
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
                    # A failing request must not cost the others their event: they stay queued.
                    news.appendleft(each._replace(waiting=tuple(still_to_look)))
                    raise
        finally:
            self._is_looking = False

    # Completed requests, and their clients.

    def note_completed(self, parked: Parked) -> None:
        """Note that it has its response: it waits no more, and `on_done` is called in turn."""
        self.forget(parked)
        # Taken, as in `run_completed`.
        send_now, parked.send_now = parked.send_now, None
        if parked.on_done is None:
            return
        if send_now is not None and send_now(parked):
            parked.on_done = None
        else:
            self._completed.append(parked)
            if len(self._completed) == 1 and not self._is_answering:
                self.on_completed()

    @property
    def has_completed(self) -> bool:
        """Whether `run_completed` has work."""
        return bool(self._completed)

    def run_completed(self) -> None:
        """Call `on_done` of completed requests, and of what that completes, in that order.

        For the host, from its event loop. Called from within a check of waiting requests, or from
        within such a call, it would nest the next request in the previous one.
        """
        assert not self._is_looking, "an event is being handled: answers wait for their turn"
        assert not self._is_answering, "an answer is in progress: the next one waits for its turn"
        self._is_answering = True
        try:
            while self._completed:
                parked = self._completed.popleft()
                # Taken: it often refers to the request, and only the collector would free both.
                on_done, parked.on_done = parked.on_done, None
                if on_done is not None:  # its client may have disconnected since
                    on_done(parked)
        finally:
            self._is_answering = False

    def cancel(self, parked: Parked) -> None:
        """The client no longer waits for it."""
        if not parked.outlives_client:
            self.forget(parked)

    def forget(self, parked: Parked) -> None:
        """Remove it from all tables. Calling this twice does no harm."""
        if parked not in self._waiting:
            return
        self._waiting.remove(parked)
        for each in parked.partitions:
            _remove(self._for_partition, each, parked)
        if parked.group_id is not None:
            _remove(self._for_group, parked.group_id, parked)
        if parked.follower is not None:
            _remove(self._for_follower, parked.follower, parked)
        if self._for_brokers:
            _remove(self._for_brokers, None, parked)
        self._deadlines.remove(parked, len(self._waiting))

    def tick(self, now_ms: int) -> None:
        """Expire every request whose deadline has come. For the host, from its event loop."""
        assert not self._is_looking, "an event is being handled: time advances after that"
        while (parked := self._deadlines.due(now_ms)) is not None:
            self.forget(parked)
            parked.expire(now_ms)

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.first_ms()


def _remove(table: dict[Key, dict[Parked, None]], key: Key, parked: Parked) -> None:
    waiting = table.get(key)
    if waiting is not None:
        waiting.pop(parked, None)
        if not waiting:
            del table[key]
