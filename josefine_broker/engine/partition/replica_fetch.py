"""The follower's fetch sessions: what to request from each leader, and which answers still count.

Rules:
- one fetcher, one session (KIP-227) and one connection per leader, however many partitions: a
  request names only what changed here, so idle traffic does not grow with the partitions;
- a request with changes may be sent while another one waits at the leader: it ends that wait;
- an answer counts for a partition only if nothing changed here since the request that last named
  it: another leader or epoch, an append, a truncation;
- the fetch offset acknowledges to the leader what is durable here. A partition whose log is not
  synced up to its end is left out until it is (`flush.messages=1`). What the leader appends in the
  meantime comes with the next answer, so throughput does not suffer;
- a partition that failed is left out until its back-off ends, and so is one that is not in sync
  while the broker's replication throttle is exhausted; the others continue.

No log is touched here: `engine/replicas/following.py` writes it and reports its end offsets. Times
are monotonic milliseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, Fatal
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.partition.leader_session import (
    FULL_EPOCH,
    NO_SESSION_ID,
    LeaderSession,
)
from josefine_broker.wire.fetch import (
    NO_HIGH_WATERMARK,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

CopyKey = tuple[UUID, int]
"""Topic id and partition: a topic that is deleted and created again has another id."""

IN_FLIGHT_MAX = 2
"""One request that waits at the leader, and one with changes after it."""

NEVER_MS = 2**62
_new = tuple.__new__


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of a follower's fetches, and of its lag; the throttle applies to replicas that are not
    in sync."""

    wait_ms: int = 500
    """How long the leader may wait for records (replica.fetch.wait.max.ms)."""
    bytes_max: int = 10 * 1024 * 1024
    """Of one answer (replica.fetch.response.max.bytes)."""
    partition_bytes_max: int = 1024 * 1024
    """Of one partition in it (replica.fetch.max.bytes)."""
    backoff_ms: int = 100
    """After an error, for the partition that has it (replica.fetch.backoff.ms)."""
    throttle_bytes_per_second: int | None = None
    lag_time_max_ms: int = 10_000
    """A follower that lags for longer than this leaves the ISR (replica.lag.time.max.ms)."""


class CopyState(Enum):
    """The state of a partition in its leader's fetch session."""

    CHANGED = "changed"  # the next request names it, with its new position
    ASKED = "asked"  # the leader's session has our position
    WRITTEN = "written"  # left out until the copied records are durable here
    PAUSED = "paused"  # left out until its retry time

    __hash__ = object.__hash__  # Enum's is Python, and hashes the name


class CopyEvent(Enum):
    """What happens to a partition that is copied."""

    MOVED = "moved"  # our log grew, was truncated, or follows a new epoch
    WROTE = "wrote"  # our log grew, and its end is not durable yet
    NAMED = "named"  # a request with its position was sent
    FAILED = "failed"  # an error, or the throttle: wait until the retry time
    DUE = "due"  # the retry time has come
    LOST = "lost"  # the session is gone: every position must be sent again

    __hash__ = object.__hash__


TRANSITIONS: dict[tuple[CopyState, CopyEvent], CopyState] = {
    # Not sent yet: the request will have the newest position.
    (CopyState.CHANGED, CopyEvent.MOVED): CopyState.CHANGED,
    (CopyState.CHANGED, CopyEvent.WROTE): CopyState.WRITTEN,
    (CopyState.CHANGED, CopyEvent.NAMED): CopyState.ASKED,
    (CopyState.CHANGED, CopyEvent.FAILED): CopyState.PAUSED,
    (CopyState.CHANGED, CopyEvent.LOST): CopyState.CHANGED,
    # A request with the position is under way: a change here makes its answer void.
    (CopyState.ASKED, CopyEvent.MOVED): CopyState.CHANGED,
    (CopyState.ASKED, CopyEvent.WROTE): CopyState.WRITTEN,
    (CopyState.ASKED, CopyEvent.FAILED): CopyState.PAUSED,
    (CopyState.ASKED, CopyEvent.LOST): CopyState.CHANGED,
    # Only MOVED, after the sync, brings it back: its fetch acknowledges what is durable.
    (CopyState.WRITTEN, CopyEvent.MOVED): CopyState.CHANGED,
    (CopyState.WRITTEN, CopyEvent.WROTE): CopyState.WRITTEN,
    (CopyState.WRITTEN, CopyEvent.FAILED): CopyState.PAUSED,
    (CopyState.WRITTEN, CopyEvent.LOST): CopyState.WRITTEN,
    # Stays until its time, whatever happens; its position by then is sent.
    (CopyState.PAUSED, CopyEvent.MOVED): CopyState.PAUSED,
    (CopyState.PAUSED, CopyEvent.WROTE): CopyState.PAUSED,
    (CopyState.PAUSED, CopyEvent.FAILED): CopyState.PAUSED,
    (CopyState.PAUSED, CopyEvent.DUE): CopyState.CHANGED,
    (CopyState.PAUSED, CopyEvent.LOST): CopyState.PAUSED,
}


@dataclass(slots=True)
class Copy:
    """One partition copied from this leader, and the position of our log."""

    key: CopyKey
    leader_epoch: LeaderEpoch
    fetch_offset: int
    last_fetched_epoch: LeaderEpoch
    log_start_offset: int
    state: CopyState = CopyState.CHANGED
    request_number: int = 0
    """Number of the last request that named it."""
    retry_at_ms: int = NEVER_MS
    leaders_high_watermark: int = 0

    @property
    def lag(self) -> int:
        """Committed records of the leader that are missing here, as of its last answer."""
        return max(0, self.leaders_high_watermark - self.fetch_offset)

    def on(self, event: CopyEvent) -> None:
        """Follow the transition table. Raises Fatal: a copy in a wrong state would skip records."""
        next_state = TRANSITIONS.get((self.state, event))
        if next_state is None:
            raise Fatal(f"copy of {self.key} {self.state.value}: unlisted event {event.value}")
        self.state = next_state


class ReplicaFetcher:
    """The session with one leader. At most one task drives it."""

    __slots__ = (
        "_changed",
        "_copies",
        "_forgotten",
        "_in_flight",
        "_last_number",
        "_limits",
        "_paused",
        "_replica_id",
        "_session",
        "_written",
        "leader_id",
        "lost_at_ms",
    )

    def __init__(self, replica_id: int, leader_id: int, limits: FetchLimits) -> None:
        self.leader_id = leader_id
        self.lost_at_ms: int | None = None
        """When the connection to the leader ended, until the leader answers again."""
        self._replica_id = replica_id
        self._limits = limits
        self._copies: dict[CopyKey, Copy] = {}
        self._changed: dict[CopyKey, Copy] = {}
        """Named by the next request."""
        self._paused: dict[CopyKey, Copy] = {}
        self._written: dict[CopyKey, Copy] = {}
        self._forgotten: dict[CopyKey, None] = {}
        """Taken out of the session by the next request."""
        self._session = LeaderSession()
        self._in_flight: list[int] = []
        """Numbers of the requests that have no answer yet."""
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._copies)

    def __iter__(self) -> Iterator[Copy]:
        return iter(self._copies.values())

    def get(self, key: CopyKey) -> Copy | None:
        return self._copies.get(key)

    def follow(self, copy: Copy) -> None:
        """Copy this partition, possibly under a new epoch or from another offset."""
        self.forget(copy.key)
        self._forgotten.pop(copy.key, None)
        self._copies[copy.key] = self._changed[copy.key] = copy

    def forget(self, key: CopyKey) -> None:
        """Stop copying the partition; the next request takes it out of the leader's session."""
        copy = self._copies.pop(key, None)
        if copy is not None:
            self._changed.pop(key, None)
            self._paused.pop(key, None)
            self._written.pop(key, None)
            self._forgotten[key] = None

    def moved(
        self,
        key: CopyKey,
        fetch_offset: int,
        last_fetched_epoch: LeaderEpoch,
        log_start_offset: int,
    ) -> None:
        """Our log now ends at this offset and is durable up to it."""
        copy = self._copies[key]
        copy.fetch_offset = fetch_offset
        copy.last_fetched_epoch = last_fetched_epoch
        copy.log_start_offset = log_start_offset
        copy.on(CopyEvent.MOVED)
        if copy.state is CopyState.CHANGED:
            self._changed[key] = copy
            # It had to leave the session only while it was not durable.
            if self._written and self._written.pop(key, None) is not None:
                self._forgotten.pop(key, None)

    def written(self, key: CopyKey) -> None:
        """The end of our log is not durable yet. Leave the partition out until `moved` reports
        that it is: a fetch would acknowledge the records to the leader."""
        copy = self._copies[key]
        copy.on(CopyEvent.WROTE)
        if copy.state is CopyState.WRITTEN:
            self._written[key] = copy
            self._leave_out(copy)

    def pause(self, key: CopyKey, until_ms: int) -> None:
        """Leave the partition out until that time."""
        copy = self._copies[key]
        copy.on(CopyEvent.FAILED)
        copy.retry_at_ms = until_ms
        self._written.pop(key, None)
        self._paused[key] = copy
        self._leave_out(copy)

    def _leave_out(self, copy: Copy) -> None:
        """Keep it out of the next request, and out of the session if it is in there."""
        self._changed.pop(copy.key, None)
        if copy.request_number:
            self._forgotten[copy.key] = None

    def fail(self, key: CopyKey, now_ms: int) -> None:
        """Something failed for this partition: back off."""
        self.pause(key, now_ms + self._limits.backoff_ms)

    def wake_at_ms(self) -> int | None:
        """When the next paused partition is due."""
        if not self._paused:
            return None
        return min(copy.retry_at_ms for copy in self._paused.values())

    def wants_request(self, now_ms: int) -> bool:
        """Whether `request` has something to send now."""
        if not self._copies:
            return False
        # An idle fetcher polls even without news: the request is also the follower's sign of life.
        if not self._in_flight:
            left_out = len(self._paused) + len(self._written)
            return left_out < len(self._copies) or self._is_due(now_ms)
        if len(self._in_flight) >= IN_FLIGHT_MAX or self._session.id == NO_SESSION_ID:
            return False  # the session id is unknown until the first full request is answered
        return bool(self._changed) or self._is_due(now_ms)

    def _is_due(self, now_ms: int) -> bool:
        paused = self._paused
        return bool(paused) and any(copy.retry_at_ms <= now_ms for copy in paused.values())

    def request(self, now_ms: int, broker_epoch: int) -> tuple[int, FetchRequest]:
        """The next request and its number, to be passed to `hear` with the answer."""
        if self._paused:
            self._resume(now_ms)
        is_full = self._session.is_full
        # A full request opens a new session: it names every copy that is not left out, and has
        # none to forget. An incremental one names what has changed since (KIP-227).
        self._last_number += 1
        named = list(self._changed.values())
        for copy in named:
            copy.on(CopyEvent.NAMED)
            copy.request_number = self._last_number
        forgotten = () if is_full else tuple(self._forgotten)
        self._changed.clear()
        self._forgotten.clear()
        limits, session = self._limits, self._session
        # The session id comes with the first answer, and no second request can be sent before.
        max_wait_ms = 0 if is_full and not session.is_refused else limits.wait_ms
        bounds = max_wait_ms, 1, limits.bytes_max, 0
        topics = _topics(named, limits.partition_bytes_max)
        left = _forgotten_topics(forgotten) if forgotten else ()
        fields = self._replica_id, *bounds, session.id, session.epoch, topics, left, ""
        request = _new(FetchRequest, (*fields, broker_epoch, None))
        if not is_full:
            self._session.advance()
        self._in_flight.append(self._last_number)
        return self._last_number, request

    def is_alone(self, copy: Copy, number: int) -> bool:
        """Whether an answer to request `number`, which has named only this partition, counts, and
        the next request is to name it alone again."""
        return (
            self._in_flight == [number]
            and copy.request_number == number
            and copy.state is CopyState.ASKED
            and self._copies.get(copy.key) is copy
            and self.lost_at_ms is None
            and not (self._changed or self._forgotten or self._paused or self._session.is_full)
        )

    def goes_on(self, copy: Copy, fetch_offset: int) -> tuple[int, int, int]:
        """What `hear`, `moved` and `request` do for such an answer, after which our log ends at
        this offset, in the same epoch: number, session epoch and offset of the next request."""
        copy.fetch_offset = fetch_offset
        # MOVED and NAMED: it stays ASKED.
        self._last_number += 1
        number = self._in_flight[0] = copy.request_number = self._last_number
        epoch = self._session.epoch
        self._session.advance()
        return number, epoch, fetch_offset

    def _resume(self, now_ms: int) -> None:
        """Name the copies again whose pause is over."""
        for copy in [each for each in self._paused.values() if each.retry_at_ms <= now_ms]:
            copy.on(CopyEvent.DUE)
            copy.retry_at_ms = NEVER_MS
            del self._paused[copy.key]
            self._changed[copy.key] = copy
            self._forgotten.pop(copy.key, None)

    def hear(
        self, number: int, response: FetchResponse, now_ms: int
    ) -> Iterator[tuple[Copy, FetchPartitionResponse]]:
        """The answers that still count, by partition; handle each before taking the next.

        After a session error none counts, and everything is requested again.
        """
        if number not in self._in_flight:
            return  # it belongs to a session or connection that was given up since
        self.lost_at_ms = None
        self._in_flight.remove(number)
        if response.error_code:
            self.lost()
            if ErrorCode(response.error_code) not in SESSION_ERRORS:
                for key in list(self._copies):
                    self.fail(key, now_ms)
            return
        if self._session.is_full:
            self._session.on_opened(response.session_id)
            if self._session.is_refused:
                self._say_all_again()
        for topic in response.topics:
            assert topic.topic_id is not None, "followers ask by topic id"
            for answer in topic.partitions:
                copy = self._copies.get((topic.topic_id, answer.index))
                if (
                    copy is not None
                    and copy.state is CopyState.ASKED
                    # An answer to an earlier request is about an earlier position: its records
                    # would be appended twice, or after a gap.
                    and copy.request_number <= number
                ):
                    copy.leaders_high_watermark = answer.high_watermark
                    yield copy, answer

    def lost(self) -> None:
        """The connection or the session is gone: answers to requests in flight no longer count."""
        self._in_flight.clear()
        self._session.epoch = FULL_EPOCH
        self._forgotten.clear()
        self._say_all_again()

    def leader_lost(self, now_ms: int) -> None:
        """The connection ended, or another one could not be opened."""
        if self.lost_at_ms is None:
            self.lost_at_ms = now_ms

    def disconnected(self) -> None:
        """A new connection need not close the session of the old one."""
        self.lost()
        self._session.id = NO_SESSION_ID

    def _say_all_again(self) -> None:
        """The leader knows no position of ours any more. Paused and unsynced copies stay out."""
        for copy in self._copies.values():
            copy.on(CopyEvent.LOST)
            copy.request_number = 0
            if copy.state is CopyState.CHANGED:
                self._changed[copy.key] = copy


SESSION_ERRORS = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
"""The leader no longer has the session (restarted, or evicted it): open a new one at once."""


def _topics(copies: list[Copy], bytes_max: int) -> tuple[FetchTopic, ...]:
    """The partitions by topic id, as Fetch v13 has them (KIP-516)."""
    by_topic: dict[UUID, list[FetchPartition]] = {}
    for copy in copies:
        topic_id, index = copy.key
        place = copy.fetch_offset, copy.last_fetched_epoch, copy.log_start_offset
        fields = index, copy.leader_epoch, *place, bytes_max, None, NO_HIGH_WATERMARK
        part = _new(FetchPartition, fields)
        if len(copies) == 1:  # mostly, where acks=all waits: without the hash of an id
            return (_new(FetchTopic, ("", topic_id, (part,))),)
        by_topic.setdefault(topic_id, []).append(part)
    return tuple(
        _new(FetchTopic, ("", topic_id, tuple(parts))) for topic_id, parts in by_topic.items()
    )


def _forgotten_topics(keys: tuple[CopyKey, ...]) -> tuple[ForgottenTopic, ...]:
    """Partitions that the leader drops from its session (KIP-227)."""
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in keys:
        by_topic.setdefault(topic_id, []).append(index)
    return tuple(ForgottenTopic("", topic_id, tuple(each)) for topic_id, each in by_topic.items())


class ReplicaFetchers:
    """The fetchers of this broker by leader, and the throttle of its replicas not in sync."""

    __slots__ = ("_leader_of", "_limits", "_replica_id", "_throttled_until_ms", "by_leader")

    def __init__(self, replica_id: int = -1, limits: FetchLimits | None = None) -> None:
        self._replica_id = replica_id
        self._limits = limits or FetchLimits()
        self._leader_of: dict[CopyKey, ReplicaFetcher] = {}
        self._throttled_until_ms = -NEVER_MS
        self.by_leader: dict[int, ReplicaFetcher] = {}

    def follow(
        self,
        key: CopyKey,
        leader_id: int,
        leader_epoch: LeaderEpoch,
        fetch_offset: int,
        last_fetched_epoch: LeaderEpoch,
        log_start_offset: int,
    ) -> None:
        """Copy a partition from that leader and from no other one."""
        fetcher = self.by_leader.get(leader_id)
        if fetcher is None:
            fetcher = ReplicaFetcher(self._replica_id, leader_id, self._limits)
            self.by_leader[leader_id] = fetcher
        # From two leaders at once, the log would mix their records.
        if self._leader_of.get(key) is not fetcher:
            self.forget(key)
        self._leader_of[key] = fetcher
        fetcher.follow(Copy(key, leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset))

    def forget(self, key: CopyKey) -> None:
        fetcher = self._leader_of.pop(key, None)
        if fetcher is not None:
            fetcher.forget(key)

    def of(self, key: CopyKey) -> ReplicaFetcher | None:
        """The fetcher that copies this partition, if any."""
        return self._leader_of.get(key)

    def lost_leaders(self, since_ms: int) -> frozenset[int]:
        """The brokers that were lost since then and have not answered again."""
        return frozenset(
            leader_id
            for leader_id, fetcher in self.by_leader.items()
            if fetcher.lost_at_ms is not None and fetcher.lost_at_ms >= since_ms
        )

    def written(self, key: CopyKey) -> None:
        """See `ReplicaFetcher.written`."""
        self._leader_of[key].written(key)

    def charge(self, size_bytes: int, now_ms: int) -> int:
        """Count bytes that were copied to replicas not in sync; returns until when these pause."""
        rate = self._limits.throttle_bytes_per_second
        if rate is None:
            return now_ms
        start_ms = max(self._throttled_until_ms, now_ms)
        # A debt instead of a bucket: one answer may exceed the rate, and the next ones wait for it
        # (KIP-73).
        self._throttled_until_ms = start_ms + size_bytes * 1_000 // rate
        return self._throttled_until_ms
