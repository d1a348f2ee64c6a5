"""Plain fetch requests: a consumer's, of few partitions, without a session or incremental in one
(KIP-227), served with a compiled parser and encoder.

Rules: it does what `api/fetch.py` does, with the same bytes and the same session afterwards. A
request with an error, or that this module does not know, is left to that path; the partitions that
it has noted in the session by then are noted there again.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from josefine_broker.api.fetch import WaitingConsumer
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.partition.fetch_session import (
    Cached,
    FetchPlan,
    FetchSession,
    PartitionKey,
    Wanted,
)
from josefine_broker.engine.partition.fetch_wait import Readable
from josefine_broker.engine.purgatory.purgatory import Encoded
from josefine_broker.engine.replicas.plain_batches import is_open
from josefine_broker.engine.replicas.plain_reads import (
    PlainRound,
    answer_one,
    answer_plain,
    read_plain,
    topic_id_of,
)
from josefine_broker.records.crc import Buffer
from josefine_broker.records.plain_fetch import (
    ID_SINCE,
    ForgottenPart,
    PlainFetch,
    PlainFetchRequest,
)
from josefine_broker.wire.codec import RequestHeader, parse_request_header
from josefine_broker.wire.fetch import NO_HIGH_WATERMARK, FetchPartition, FetchRequest

NO_REPLICA = -1
_new = tuple.__new__


class Sender(Protocol):
    """The other end of a connection."""

    @property
    def principal(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def listener(self) -> str: ...


def fetch_plain(
    ctx: Context, plain: PlainFetch, frame: memoryview, sender: Sender
) -> "list[Buffer] | WaitingPlain | None":
    """The whole response, or the parked request. None: the general path must serve it."""
    request = plain.parse(frame)
    if request is None or not is_open(ctx):
        return None
    (
        parts, _, version, max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch,
        forgotten,
    ) = request  # fmt: skip
    if len(parts) == 1 and not session_id:
        buffers = answer_one(ctx, plain, request)
        if buffers is not None:
            return buffers
    wanted = _wanted_of(request)
    if wanted is None:
        return None
    session = None
    if session_id:
        session = ctx.clients.sessions.current(session_id, epoch, by_id=version >= ID_SINCE)
        if session is None:
            return None
        for each in wanted:
            session.want(each)
        if forgotten and not _forget(session, forgotten):
            return None
    found = read_plain(ctx, _known(session, wanted), isolation, max_bytes)
    if found is None:
        return None
    is_answered = found.got_bytes >= min(min_bytes, max_bytes) or max_wait_ms <= 0
    # With some records, but not enough, the general path counts what is missing.
    if not is_answered and (found.got_bytes or not found.is_complete):
        return None
    if session is not None:
        ctx.clients.sessions.begin_current(session, ctx.clock.monotonic_ms())
    if is_answered:
        return _answer(plain, request, session, found)
    waiting = WaitingPlain(ctx, plain, request, frame, sender, session, wanted)
    ctx.parked.park(waiting, partitions=waiting.missing.keys)
    if session is not None:
        session.waiting = waiting
    return waiting


def _wanted_of(request: PlainFetchRequest) -> list[Wanted] | None:
    """The partitions, as the general parser makes them. None: a request without a session names one
    twice."""
    parts, by_id = request[0], request[2] >= ID_SINCE
    found, last, topic_id, name = [], None, None, ""
    for topic, index, epoch, offset, bytes_max in parts:
        if topic is last:
            pass
        elif by_id:
            topic_id = topic_id_of(topic)
            if topic_id is None:  # the general path refuses it, and the session must not keep it
                return None
        else:
            name = topic.decode()
        last = topic
        fields = index, epoch, offset, -1, -1, bytes_max, None, NO_HIGH_WATERMARK
        found.append(_new(Wanted, (name, topic_id, _new(FetchPartition, fields))))
    if len(parts) > 1 and not request[7] and len({part[:2] for part in parts}) < len(parts):
        return None
    return found


def _forget(session: FetchSession, forgotten: Sequence[ForgottenPart]) -> bool:
    """Whether the partitions have left the session, and others are in it. The general path ends an
    empty session."""
    keys: list[PartitionKey] = []
    for topic, index in forgotten:
        key = topic_id_of(topic) if session.by_id else topic.decode()
        if key is None:  # the general path refuses it
            return False
        keys.append((key, index))
    for each in keys:
        session.partitions.pop(each, None)
    return bool(session.partitions)


def _known(session: FetchSession | None, wanted: list[Wanted]) -> Iterable[Cached]:
    """What to read, with what the reader knows; without a session it knows nothing."""
    if session is not None:
        return session.partitions.values()
    return [Cached(each) for each in wanted]


def _answer(
    plain: PlainFetch, request: PlainFetchRequest, session: FetchSession | None, found: PlainRound
) -> list[Buffer]:
    """The response, noted in the session."""
    session_id = 0
    if session is not None:
        session_id = session.session_id
        for wanted, _, high_watermark, log_start_offset, _, size in found.news:
            session.note_sent(wanted, high_watermark, log_start_offset, with_records=size > 0)
    return answer_plain(plain, request, session_id, found.news)


class WaitingPlain(WaitingConsumer):
    """A plain fetch that has read everything and waits for more."""

    __slots__ = ("_plain", "_received")

    def __init__(
        self,
        ctx: Context,
        plain: PlainFetch,
        request: PlainFetchRequest,
        frame: memoryview,
        sender: Sender,
        session: FetchSession | None,
        wanted: list[Wanted],
    ) -> None:
        _, _, _, max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, _ = request
        if session is not None:
            wanted = [each.wanted for each in session.partitions.values()]
        header = parse_request_header(frame)
        super().__init__(
            ctx,
            _new(RequestInfo, (header, sender.principal, sender.address, sender.listener)),
            FetchRequest(
                NO_REPLICA, max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, ()
            ),
            FetchPlan(wanted, session, session is not None),
            [_empty(ctx, each) for each in wanted],
        )
        self._plain = plain
        self._received = request

    @property
    def header(self) -> RequestHeader:
        """The request's header."""
        header: RequestHeader = self._info.header
        return header

    def expire(self, now_ms: int) -> None:
        """Answer with what is there now. What is not plain any more has the general answer."""
        ctx, plan, request = self._ctx, self._plan, self._received
        session, known = plan.session, _known(plan.session, list(plan.wanted))
        found = read_plain(ctx, known, request[6], request[5]) if is_open(ctx) else None
        if found is None:
            super().expire(now_ms)
            return
        if session is not None and session.waiting is self:
            session.waiting = None
        self.complete(Encoded(_answer(self._plain, request, session, found)))


def _empty(ctx: Context, wanted: Wanted) -> Readable:
    """A partition without records to read."""
    name, topic_id, part = wanted
    topic = name if topic_id is None else ctx.image.topic_names[topic_id]
    key = (topic, part.index)
    visible_bytes = ctx.hosted.partitions[key].partition.committed_bytes
    return _new(Readable, (key, 0, part.max_bytes, False, visible_bytes))
