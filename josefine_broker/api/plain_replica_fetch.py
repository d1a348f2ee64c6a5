"""A follower's plain fetch: the handler of `api/fetch.py`, without the codec around it; and without
the handler, where the follower has everything and waits for the next record.

Rules: `wire/replica_frames.py` reads the request and writes the answer, with the codec's bytes;
what is not plain is left to the codec. The handler decides, except for the round that acks=all
waits for: a follower in sync reports that it has the whole log (`CaughtUp`), and is answered with
what was appended next. That leaves the session, the follower and the answer as the handler would.
"""

from collections.abc import Callable
from typing import Any

from josefine_broker.api.fetch import read_again
from josefine_broker.api.plain_fetch import Sender
from josefine_broker.api.rules.asker import asker_of
from josefine_broker.base.acls import Operation
from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.fetch_session import (
    NOTHING_SENT,
    Cached,
    FetchPlan,
    FetchSession,
    Wanted,
)
from josefine_broker.engine.purgatory.purgatory import Encoded, Parked, PartitionKey
from josefine_broker.engine.replicas.fetch_follower import LOOK_MS
from josefine_broker.engine.replicas.leading import submit_isr_changes
from josefine_broker.records.crc import Buffer
from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import RequestHeader, encode_response, parse_request_header
from josefine_broker.wire.fetch import FetchRequest
from josefine_broker.wire.replica_frames import (
    decode_replica_request,
    encode_replica_records,
    encode_replica_response,
)

__all__ = ["CaughtUp", "fetch_for_follower"]

FETCH_KEY = b"\0\x01"
Handle = Callable[[RequestHeader, Any], Any]
"""The handler with its context, or its refusal: the response, or the token that waits for it."""
_new = tuple.__new__


def fetch_for_follower(
    ctx: Context, frame: memoryview, sender: Sender, handle: Handle
) -> tuple[RequestHeader, list[Buffer] | Parked] | None:
    """The header, and the whole response or the request that waits for it, which is completed with
    an `Encoded`. None: nothing was done."""
    # A quota adds to the answer, and needs the client's name.
    if frame[:2] != FETCH_KEY or ctx.image.quotas:
        return None
    try:
        header = parse_request_header(frame)
    except CorruptData:  # the route ends the connection, without a line in the log for each frame
        return None
    request = decode_replica_request(header, frame)
    if request is None:
        return None
    caught_up = _caught_up(ctx, header, sender, request)
    if caught_up is not None:
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


def _caught_up(
    ctx: Context, header: RequestHeader, sender: Sender, request: FetchRequest
) -> "CaughtUp | None":
    """Accept the request of a follower in sync that has the whole log of the one partition that it
    names, and no news to expect of others. None: nothing was done."""
    replica_id, max_wait_ms, _, _, _, session_id, epoch, topics, _, _, replica_epoch, _ = request
    if not topics or max_wait_ms <= 0 or min(request.min_bytes, request.max_bytes) <= 0:
        return None
    session = ctx.clients.sessions.current(session_id, epoch, by_id=True)
    if session is None or not _is_broker(ctx, header, sender):
        return None
    _, topic_id, (part,) = topics[0]
    assert topic_id is not None, "a follower names topics by id"
    key = (topic_id, part[0])
    tp = (ctx.image.topic_names.get(topic_id, ""), part[0])
    hosted, cached = ctx.hosted.partitions.get(tp), session.partitions.get(key)
    if hosted is None or cached is None or not _has_all(ctx, hosted, cached, request):
        return None
    now_ms, news = ctx.clock.monotonic_ms(), ctx.parked.followers
    if len(session.partitions) > 1:
        changes = news.of(replica_id)
        if now_ms - session.looked_ms >= LOOK_MS or not changes.keys() <= {tp}:
            return None
        changes[tp] = None
    # From here on as the handler.
    wanted = _new(Wanted, ("", topic_id, part))
    session.partitions[key] = _new(Cached, (wanted, NOTHING_SENT, cached.log_start_offset))
    ctx.clients.sessions.begin_current(session, now_ms)
    events, log = news.events, hosted.log
    has_moved = hosted.partition.follower_fetched(
        replica_id, part[2], part[4], part[2], now_ms,
        may_join=False, broker_epoch=replica_epoch, durable_end_offset=log.durable_end_offset,
    )  # fmt: skip
    if has_moved:
        ctx.parked.wake(tp, now_ms)
        if ctx.hosted.isr.due:
            submit_isr_changes(ctx)
    waiting = CaughtUp(ctx, header, sender, request, session, tp, hosted, now_ms + max_wait_ms)
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


def _has_all(ctx: Context, hosted: HostedPartition, cached: Cached, request: FetchRequest) -> bool:
    """Whether the handler would find a member of the ISR that has all records of this leader, and
    nothing else to note of it than that."""
    replica_id, replica_epoch = request.replica_id, request.replica_epoch
    _, leader_epoch, offset, last_fetched_epoch, start_offset = request.topics[0][2][0][:5]
    partition, log, broker = hosted.partition, hosted.log, ctx.image.brokers.get(replica_id)
    followers = partition.followers
    if followers is None or broker is None or broker.epoch != replica_epoch:
        return False
    follower = followers.get(replica_id)
    return (
        follower is not None
        and follower.broker_epoch == replica_epoch
        and follower.start_offset == start_offset
        and replica_id in followers.isr
        and not followers.joining
        and not ctx.hosted.isr.due
        and partition.is_leader
        and leader_epoch == partition.leader_epoch
        and offset == log.log_end_offset
        # Records of the epoch that is still being written: it ends where the log does.
        and last_fetched_epoch == partition.epochs.latest >= 0
        and offset >= log.log_start_offset == cached.log_start_offset
    )


class CaughtUp(Parked):
    """The fetch of a follower that has everything: any news of a partition it copies completes
    it."""

    __slots__ = (
        "_ctx", "_header", "_hosted", "_request", "_sender", "_session", "_tp",
        "is_answered_from_append",
    )  # fmt: skip

    is_cut_short = True

    def __init__(
        self,
        ctx: Context,
        header: RequestHeader,
        sender: Sender,
        request: FetchRequest,
        session: FetchSession,
        tp: PartitionKey,
        hosted: HostedPartition,
        deadline_ms: int,
    ) -> None:
        """`tp`: the partition that it names."""
        super().__init__(deadline_ms)
        self._ctx = ctx
        self._header = header
        self._sender = sender
        self._request = request
        self._session = session
        self._tp = tp
        self._hosted = hosted
        self.is_answered_from_append = False
        """Whether its answer was made without a look at the log."""

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        buffers = self._appended(now_ms)
        if buffers is None:
            self.expire(now_ms)
        else:
            self._session.waiting = None
            self.is_answered_from_append = True
            self.complete(_new(Encoded, (buffers,)))
        return True

    def expire(self, now_ms: int) -> None:
        header, sender, session = self._header, self._sender, self._session
        if session.waiting is self:
            session.waiting = None
        info = RequestInfo(header, sender.principal, sender.address, sender.listener)
        plan = FetchPlan([each.wanted for each in session.partitions.values()], session, True)
        response = read_again(self._ctx, info, self._request, plan)
        self.complete(Encoded(_encoded(header, response)))

    def _appended(self, now_ms: int) -> list[Buffer] | None:
        """The answer with what was just appended to the one partition that has news. None: it must
        be looked for."""
        ctx, session, tp, request = self._ctx, self._session, self._tp, self._request
        news, hosted = ctx.parked.followers, self._hosted
        if len(news.grown) != 1 or tp not in news.grown:
            return None
        base_offset, records = news.grown[tp]
        partition, size, (_, topic_id, (part,)) = hosted.partition, len(records), request.topics[0]
        if (
            base_offset != part.fetch_offset
            or not partition.is_leader
            or partition.leader_epoch != part.current_leader_epoch
            or ctx.hosted.partitions.get(tp) is not hosted
            or not partition.has_follower(request.replica_id)
            or size > min(part.max_bytes, request.max_bytes, ctx.settings.fetch.bytes_max)
        ):
            return None
        assert topic_id is not None
        partitions, key = session.partitions, (topic_id, part.index)
        if len(partitions) > 1:
            is_due = now_ms - session.looked_ms >= LOOK_MS
            if is_due or news.of(request.replica_id).keys() != {tp}:
                return None
        cached = partitions.pop(key, None)
        if cached is None:
            return None
        high_watermark, start = partition.high_watermark, hosted.log.log_start_offset
        # To the end of the order, as in the handler's answers.
        partitions[key] = _new(Cached, (cached.wanted, high_watermark, start))
        ctx.hosted.traffic.sent("", topic_id, size)
        return encode_replica_records(
            self._header.correlation_id, session.session_id, topic_id.bytes, part.index,
            high_watermark, start, records,
        )  # fmt: skip
