"""Incremental fetch sessions (KIP-227): requests and answers carry only what changed.

Rules: a session's answers, applied to what its consumer already knows, amount to a full answer;
the session epoch grows by one per request, so a lost or repeated request is detected; a partition
that a follower names is answered again, because the follower may have skipped the last answer;
partitions that returned bytes move to the end of the order, so that none starves; the number of
sessions is limited, and an idle one is evicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.fetch import FetchPartition, FetchPartitionResponse, FetchRequest

NO_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
EVICTION_MS = 120_000
"""A session idle this long may be evicted (Kafka's min.incremental.fetch.session.eviction.ms)."""

NEVER_MS = -(2**62)
NOTHING_SENT = -1
"""Before the first answer: any watermark is news."""

PartitionKey = tuple[str | UUID, int]
_new = tuple.__new__


class Rng(Protocol):
    """A random source, as `random.Random`."""

    def getrandbits(self, k: int, /) -> int: ...


class Wanted(NamedTuple):
    """One partition of a fetch request; the topic is by name or by id, as in the request."""

    name: str
    topic_id: UUID | None
    partition: FetchPartition


class Fetched(NamedTuple):
    """The answer for one partition."""

    name: str
    topic_id: UUID | None
    partition: FetchPartitionResponse


class Cached(NamedTuple):
    """What a session remembers of a partition: the request, and the last answer."""

    wanted: Wanted
    high_watermark: int = NOTHING_SENT
    log_start_offset: int = NOTHING_SENT


@dataclass(slots=True)
class FetchSession:
    """One consumer's session. `epoch` is the epoch of its next request."""

    session_id: int
    by_id: bool
    """Topics have ids since Fetch 13 (KIP-516); one session cannot mix ids and names."""
    epoch: int
    used_ms: int
    """When its last request came, for eviction."""
    partitions: dict[PartitionKey, Cached] = field(default_factory=dict)
    looked_ms: int = NEVER_MS
    """When a follower's request last looked at every partition for news."""
    usual: object | None = None
    """What its plain requests have in common (`api/plain_replica_fetch.py`)."""
    waiting: Parked | None = None
    """The session's request that waits. The next request ends its wait, so that a follower that
    adds a partition does not wait for the end of its previous long poll."""

    def used(self, now_ms: int) -> None:
        """A request of the current epoch was accepted."""
        # 0 and -1 have a meaning of their own.
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        self.used_ms = now_ms

    def want(self, wanted: Wanted, *, is_follower: bool = False) -> None:
        """Add or change a partition, as a reader asks. Only an answer renews a follower's knowledge
        of the high watermark, and it may have thrown the last one away."""
        name, topic_id, part = wanted
        key = (name if topic_id is None else topic_id, part[0])
        cached = self.partitions.get(key)
        if cached is None:
            self.partitions[key] = Cached(wanted)
            return
        _, high_watermark, log_start_offset = cached
        sent = NOTHING_SENT if is_follower else high_watermark
        self.partitions[key] = _new(Cached, (wanted, sent, log_start_offset))

    def note_sent(
        self, wanted: Wanted, high_watermark: int, log_start_offset: int, *, with_records: bool
    ) -> None:
        """Note an answer without an error. One with records moves the partition to the end of the
        order: an answer of limited size has the others first next time."""
        key = _key(wanted.name, wanted.topic_id, wanted.partition.index)
        if with_records and len(self.partitions) > 1:
            del self.partitions[key]
        self.partitions[key] = _new(Cached, (wanted, high_watermark, log_start_offset))


class FetchPlan(NamedTuple):
    """What to read for one request, and the session that the answer belongs to."""

    wanted: Sequence[Wanted]
    session: FetchSession | None = None
    incremental: bool = False

    def is_told(self, wanted: Wanted, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the reader already has these offsets, so that without records there is nothing
        to send."""
        cached = self._cached(wanted)
        return (
            cached is not None
            and cached.high_watermark == high_watermark
            and cached.log_start_offset == log_start_offset
        )

    def has_new_start(self, wanted: Wanted, log_start_offset: int) -> bool:
        """Whether the reader has another log start offset."""
        cached = self._cached(wanted)
        return cached is not None and cached.log_start_offset not in (
            NOTHING_SENT, log_start_offset,
        )  # fmt: skip

    def _cached(self, wanted: Wanted) -> Cached | None:
        """What the session remembers; None in a full request, which repeats everything."""
        if not self.incremental or self.session is None:
            return None
        name, topic_id, part = wanted
        return self.session.partitions.get((name if topic_id is None else topic_id, part[0]))


def wanted_of(request: FetchRequest) -> Sequence[Wanted]:
    """Every partition of a request, once. If one is named twice, its last occurrence counts, in the
    position of the first (as in Kafka's FetchRequest.fetchData)."""
    wanted = [
        _new(Wanted, (name, topic_id, partition))
        for name, topic_id, partitions in request.topics
        for partition in partitions
    ]
    if len(wanted) < 2:
        return wanted
    by_key = {_key(each.name, each.topic_id, each.partition.index): each for each in wanted}
    return wanted if len(by_key) == len(wanted) else tuple(by_key.values())


def _key(name: str, topic_id: UUID | None, index: int) -> PartitionKey:
    """By id from Fetch v13 on: a topic that was created again under its name is another
    partition."""
    return (name if topic_id is None else topic_id, index)


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    __slots__ = ("_sessions", "_sessions_max")

    def __init__(self, sessions_max: int) -> None:
        self._sessions: dict[int, FetchSession] = {}
        self._sessions_max = sessions_max

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def take_waiting(self, session_id: int) -> Parked | None:
        """The session's waiting request. It must be answered before the next one begins, because
        its answer changes the session's state, which the next request may change back."""
        session = self._sessions.get(session_id)
        if session is None:
            return None
        waiting, session.waiting = session.waiting, None
        return waiting

    def current(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession | None:
        """The session of an incremental request that `begin` would accept, unless an earlier one of
        it waits, or it has no partitions and ends. Nothing is changed."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch != epoch or session.waiting is not None:
            return None
        return session if session.partitions and session.by_id is by_id else None

    def begin_current(self, session: FetchSession, now_ms: int) -> None:
        """Accept a request for which `current` has found the session, which has been updated."""
        if next(reversed(self._sessions)) != session.session_id:
            # At the end of the order, which is that of the last use.
            self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.used(now_ms)

    def begin(self, request: FetchRequest, now_ms: int, rng: Rng) -> FetchPlan:
        """Accept a request; returns what to read. Raises KafkaError for an unknown session or
        epoch."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            wanted = wanted_of(request)
            if request.session_epoch == FINAL_EPOCH:
                return FetchPlan(wanted)
            return FetchPlan(wanted, self._open(wanted, now_ms, rng))
        session = self._sessions.pop(request.session_id, None)
        if session is None:
            raise KafkaError(
                ErrorCode.fetch_session_id_not_found, f"no fetch session {request.session_id}"
            )
        # At the end of the order, which is that of the last use.
        self._sessions[session.session_id] = session
        if session.epoch != request.session_epoch:
            raise KafkaError(
                ErrorCode.invalid_fetch_session_epoch,
                f"fetch session epoch {request.session_epoch}, expected {session.epoch}",
            )
        self._update(session, request)
        session.used(now_ms)
        if not session.partitions:
            del self._sessions[session.session_id]
            return FetchPlan(())
        return FetchPlan([each.wanted for each in session.partitions.values()], session, True)

    def _open(self, wanted: Sequence[Wanted], now_ms: int, rng: Rng) -> FetchSession | None:
        """A new session; None when the limit is reached and no session is idle long enough."""
        if len(self._sessions) >= self._sessions_max:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < EVICTION_MS:
                return None
            del self._sessions[oldest.session_id]
        session_id = NO_SESSION_ID
        while session_id == NO_SESSION_ID or session_id in self._sessions:
            # Random, so that a client cannot guess the session of another one.
            session_id = rng.getrandbits(31)
        by_id = any(each.topic_id is not None for each in wanted)
        session = FetchSession(session_id, by_id, INITIAL_EPOCH + 1, now_ms)
        for each in wanted:
            key = _key(each.name, each.topic_id, each.partition.index)
            session.partitions[key] = Cached(each)
        self._sessions[session_id] = session
        return session

    def _update(self, session: FetchSession, request: FetchRequest) -> None:
        """Add, change and forget partitions as the request asks."""
        if session.partitions:
            for _, topic_id, _ in (*request.topics, *request.forgotten):
                if (topic_id is not None) is not session.by_id:
                    raise KafkaError(
                        ErrorCode.fetch_session_topic_id_error,
                        "topics by id and by name in one session",
                    )
        is_follower = request.replica_id >= 0
        for each in wanted_of(request):
            session.want(each, is_follower=is_follower)
        for name, topic_id, indexes in request.forgotten:
            for index in indexes:
                session.partitions.pop(_key(name, topic_id, index), None)


def select_answers(plan: FetchPlan, results: Sequence[Fetched]) -> Sequence[Fetched]:
    """The results that the consumer must get, noted in the session; all of them without one."""
    session = plan.session
    if session is None:
        return results
    told = []
    for result in results:
        name, topic_id, answer = result
        key = _key(name, topic_id, answer.index)
        cached = session.partitions.get(key)
        if cached is None:
            continue  # a later request of this session has removed the partition
        # KIP-227: a partition without news is left out of an incremental answer.
        news = (
            bool(answer.records)
            or answer.error_code != 0
            or answer.high_watermark != cached.high_watermark
            or answer.log_start_offset != cached.log_start_offset
            or answer.diverging is not None
            or answer.preferred_read_replica >= 0
        )
        if answer.error_code:  # an error is sent each time, and so is the first answer after it
            session.partitions[key] = Cached(cached.wanted)
        elif news:
            sent = cached.wanted, answer.high_watermark, answer.log_start_offset
            session.partitions[key] = _new(Cached, sent)
        if answer.records and len(session.partitions) > 1:
            # To the end of the order: an answer of limited size has the others first next time.
            session.partitions[key] = session.partitions.pop(key)
        if news or not plan.incremental:
            told.append(result)
    return told
