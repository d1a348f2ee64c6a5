"""A follower's plain fetch: the handler of `api/fetch.py`, without the codec around it; and without
the handler, where the follower has everything and waits for the next record.

Rules: `wire/replica_frames.py` reads the request and writes the answer, with the codec's bytes;
what is not plain is left to the codec. The handler decides, except for the round that acks=all
waits for: a follower in sync reports that it has the whole log (`CaughtUp`), and is answered with
what was appended next. That leaves the session, the follower and the answer as the handler would.
Round after round it sends the same bytes but for three numbers, so that most of a request is known
from the one before (`_Usual`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.api.fetch import read_again
from josefine_broker.api.plain_fetch import Sender
from josefine_broker.api.rules.asker import asker_of
from josefine_broker.base.acls import Operation
from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import MetadataImage
from josefine_broker.engine.partition.fetch_session import (
    NOTHING_SENT,
    Cached,
    FetchPlan,
    FetchSession,
    Wanted,
)
from josefine_broker.engine.partition.replica_role import ReplicaState
from josefine_broker.engine.purgatory.purgatory import Encoded, Parked, PartitionKey
from josefine_broker.engine.replicas.fetch_follower import LOOK_MS
from josefine_broker.engine.replicas.leading import submit_isr_changes
from josefine_broker.records.crc import Buffer
from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import RequestHeader, encode_response, parse_request_header
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from josefine_broker.wire.replica_frames import (
    RepeatedRequest,
    decode_replica_request,
    encode_replica_records,
    encode_replica_response,
    session_of,
)

__all__ = ["FETCH_KEY", "CaughtUp", "fetch_again", "fetch_for_follower"]

FETCH_KEY = b"\0\x01"
Handle = Callable[[RequestHeader, Any], Any]
"""The handler with its context, or its refusal: the response, or the token that waits for it."""
_new = tuple.__new__
_LEADER = ReplicaState.LEADER


def fetch_for_follower(
    ctx: Context, frame: memoryview, sender: Sender, handle: Handle
) -> tuple[RequestHeader, list[Buffer] | Parked] | None:
    """The header, and the whole response or the request that waits for it, which is completed with
    an `Encoded`. None: nothing was done."""
    # A quota adds to the answer, and needs the client's name.
    if frame[:2] != FETCH_KEY or ctx.image.quotas:
        return None
    caught_up = fetch_again(ctx, frame, sender)
    if caught_up is not None:
        return caught_up.header, caught_up
    try:
        header = parse_request_header(frame)
    except CorruptData:  # the route ends the connection, without a line in the log for each frame
        return None
    request = decode_replica_request(header, frame)
    if request is None:
        return None
    session = ctx.clients.sessions.get(request.session_id)
    usual = None if session is None else _usual_of(ctx, frame, header, sender, request, session)
    if session is not None and usual is not None:
        offset = request.topics[0].partitions[0].fetch_offset
        caught_up = _wait(usual, session, header.correlation_id, request.session_epoch, offset)
        if caught_up is not None:
            session.usual = usual
            return header, caught_up
    answer = handle(header, request)
    if isinstance(answer, Parked):
        answer.make_of(lambda response: Encoded(_encoded(header, response)))
        return header, answer
    return header, _encoded(header, answer)


def _encoded(header: RequestHeader, response: Any) -> list[Buffer]:
    version, correlation_id = header.api_version, header.correlation_id
    buffers = encode_replica_response(version, correlation_id, response)
    if buffers is not None:
        return buffers
    return encode_response(FETCH, version, correlation_id, response)


class _Usual(NamedTuple):
    """What the requests of a follower for one partition have in common, on one connection and
    within one image of the metadata."""

    ctx: Context
    sender: Sender
    image: MetadataImage
    repeated: RepeatedRequest | None
    """None: the request before was for another partition."""
    tp: PartitionKey
    hosted: HostedPartition
    header: RequestHeader
    """Of the first of these requests, as what follows."""
    request: FetchRequest
    key: tuple[UUID, int]
    """Of the partition in the session."""
    raw_topic_id: bytes
    part: FetchPartition
    size_max: int
    """Of the records in an answer."""


def _usual_of(
    ctx: Context,
    frame: memoryview,
    header: RequestHeader,
    sender: Sender,
    request: FetchRequest,
    session: FetchSession,
) -> _Usual | None:
    """None: the request does not wait, or names no partition, or names none that is hosted here."""
    if (
        not request.topics
        or request.max_wait_ms <= 0
        or min(request.min_bytes, request.max_bytes) <= 0
    ):
        return None
    _, topic_id, (part,) = request.topics[0]
    assert topic_id is not None, "a follower names topics by id"
    tp = (ctx.image.topic_names.get(topic_id, ""), part.index)
    hosted, broker = ctx.hosted.partitions.get(tp), ctx.image.brokers.get(request.replica_id)
    if hosted is None or broker is None or broker.epoch != request.replica_epoch:
        return None
    size_max = min(part.max_bytes, request.max_bytes, ctx.settings.fetch.bytes_max)
    key, before = (topic_id, part.index), session.usual
    is_repeated = type(before) is _Usual and before.key == key
    repeated = RepeatedRequest(frame) if is_repeated else None
    found = ctx, sender, ctx.image, repeated, tp, hosted, header, request
    return _new(_Usual, (*found, key, topic_id.bytes, part, size_max))


def fetch_again(ctx: Context, frame: memoryview, sender: Sender) -> "CaughtUp | None":
    """The same for a request that is like the one before; `sender` must have no other under way.
    None: nothing was done."""
    session = ctx.clients.sessions.get(session_of(frame))
    if session is None:
        return None
    usual = session.usual
    if type(usual) is not _Usual or usual.repeated is None:
        return None
    if usual.sender is not sender or usual.image is not ctx.image:
        return None
    numbers = usual.repeated.read(frame)
    return None if numbers is None else _wait(usual, session, *numbers)


def _wait(
    usual: _Usual, session: FetchSession, correlation_id: int, epoch: int, offset: int
) -> "CaughtUp | None":
    """Accept the request of a follower in sync that has the whole log of the one partition that it
    names, and no news to expect of others. None: nothing was done."""
    ctx, sender, _, _, tp, hosted, header, request, key, _, part, _ = usual
    replica_id, sessions = request[0], ctx.clients.sessions
    cached = session.partitions.get(key)
    if (
        cached is None
        or sessions.current(session.session_id, epoch, by_id=True) is not session
        or ctx.hosted.partitions.get(tp) is not hosted
        or not _is_broker(ctx, header, sender)
        or not _has_all(usual, cached, offset)
    ):
        return None
    now_ms, news = ctx.clock.monotonic_ms(), ctx.parked.followers
    if len(session.partitions) > 1:
        changes = news.of(replica_id)
        if now_ms - session.looked_ms >= LOOK_MS or not changes.keys() <= {tp}:
            return None
        changes[tp] = None
    # From here on as the handler; but what this confirms is answered first.
    events = news.events
    has_moved = hosted.partition.follower_fetched(
        replica_id, offset, part[4], offset, now_ms, may_join=False,
        broker_epoch=request.replica_epoch, durable_end_offset=hosted.log.durable_end_offset,
    )  # fmt: skip
    if has_moved:
        ctx.parked.wake(tp, now_ms)
        if ctx.hosted.isr.due:
            submit_isr_changes(ctx)
    asked = _new(FetchPartition, (*part[:2], offset, *part[3:]))
    wanted = _new(Wanted, ("", key[0], asked))
    session.partitions[key] = _new(Cached, (wanted, NOTHING_SENT, cached.log_start_offset))
    sessions.begin_current(session, now_ms)
    waiting = CaughtUp(usual, session, correlation_id, epoch, wanted, now_ms + request[1])
    ctx.parked.park(waiting, follower=replica_id)
    session.waiting = waiting
    if news.events != events:
        # What the fetch has confirmed caused an append: a marker, or a request that waited for it.
        ctx.parked.forget(waiting)
        waiting.expire(now_ms)
    return waiting


def _is_broker(ctx: Context, header: RequestHeader, sender: Sender) -> bool:
    """Whether the guard of the handler (`api/access.py`) would let this follower in."""
    if sender.listener in ctx.clients.listeners_apart:
        return False
    if ctx.clients.authorizer is None:
        return True
    info = RequestInfo(header, sender.principal, sender.address, sender.listener)
    asker = asker_of(ctx, info)
    return asker is None or asker.may_cluster(Operation.CLUSTER_ACTION)


def _has_all(usual: _Usual, cached: Cached, offset: int) -> bool:
    """Whether the handler would find a member of the ISR that has all records of this leader, and
    nothing else to note of it than that."""
    hosted, (replica_id, *_), part = usual.hosted, usual.request, usual.part
    partition, log = hosted.partition, hosted.log
    followers = partition.followers
    follower = None if followers is None else followers.get(replica_id)
    return (
        follower is not None
        and followers is not None
        and follower.broker_epoch == usual.request.replica_epoch
        and follower.start_offset == part.log_start_offset
        and replica_id in followers.isr
        and not followers.joining
        and not usual.ctx.hosted.isr.due
        and partition.state is _LEADER
        and part.current_leader_epoch == partition.leader_epoch
        and offset == log.log_end_offset
        # Records of the epoch that is still being written: it ends where the log does.
        and part.last_fetched_epoch == partition.epochs.latest >= 0
        and offset >= log.log_start_offset == cached.log_start_offset
    )


class CaughtUp(Parked):
    """The fetch of a follower that has everything: any news of a partition it copies completes
    it."""

    __slots__ = (
        "_correlation_id", "_epoch", "_session", "_usual", "_wanted", "is_answered_from_append",
    )  # fmt: skip

    is_cut_short = is_urgent = True

    def __init__(
        self,
        usual: _Usual,
        session: FetchSession,
        correlation_id: int,
        epoch: int,
        wanted: Wanted,
        deadline_ms: int,
    ) -> None:
        """`wanted`: the partition that it names."""
        super().__init__(deadline_ms)
        self._usual = usual
        self._session = session
        self._correlation_id = correlation_id
        self._epoch = epoch
        self._wanted = wanted
        self.is_answered_from_append = False
        """Whether its answer was made without a look at the log."""

    @property
    def header(self) -> RequestHeader:
        """The request's header."""
        key, version, _, client_id, body_offset = self._usual.header
        return _new(RequestHeader, (key, version, self._correlation_id, client_id, body_offset))

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        records = self._appended(now_ms)
        if records is None:
            self.expire(now_ms)
            return True
        ctx, _, _, _, _, hosted, _, _, key, raw, part, _ = self._usual
        session = self._session
        high_watermark, start = hosted.partition.high_watermark, hosted.log.log_start_offset
        session.waiting = None
        self.is_answered_from_append = True
        buffers = encode_replica_records(
            self._correlation_id, session.session_id, raw, part[0], high_watermark, start, records
        )
        self.complete(_new(Encoded, (buffers,)))
        # The follower has its answer by now.
        partitions = session.partitions
        if len(partitions) > 1:
            del partitions[key]  # to the end of the order, as in the handler's answers
        partitions[key] = _new(Cached, (self._wanted, high_watermark, start))
        ctx.hosted.traffic.sent("", key[0], len(records))
        return True

    def expire(self, now_ms: int) -> None:
        usual, header = self._usual, self.header
        ctx, sender, session, (name, topic_id, part) = *usual[:2], self._session, self._wanted
        if session.waiting is self:
            session.waiting = None
        info = RequestInfo(header, sender.principal, sender.address, sender.listener)
        plan = FetchPlan([each.wanted for each in session.partitions.values()], session, True)
        topics = (FetchTopic(name, topic_id, (part,)),)
        request = usual.request._replace(session_epoch=self._epoch, topics=topics)
        self.complete(Encoded(_encoded(header, read_again(ctx, info, request, plan))))

    def _appended(self, now_ms: int) -> Buffer | None:
        """What was just appended to the one partition that has news. None: it must be looked
        for."""
        ctx, _, _, _, tp, hosted, _, request, _, _, part, size_max = self._usual
        session, news, partition = self._session, ctx.parked.followers, hosted.partition
        if len(news.grown) != 1 or tp not in news.grown:
            return None
        base_offset, records = news.grown[tp]
        followers = partition.followers
        if (
            base_offset != self._wanted.partition.fetch_offset
            or partition.state is not _LEADER
            or partition.leader_epoch != part.current_leader_epoch
            or ctx.hosted.partitions.get(tp) is not hosted
            or followers is None
            or followers.get(request[0]) is None
            or len(records) > size_max
            or session.waiting is not self
        ):
            return None
        if len(session.partitions) > 1:
            is_due = now_ms - session.looked_ms >= LOOK_MS
            if is_due or news.of(request.replica_id).keys() != {tp}:
                return None
        return records
