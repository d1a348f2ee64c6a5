"""Plain ShareFetch requests: a session's next one that names no partition, while there is nothing
to acquire. That is all that the members of an idle share group send.

Rules: it leaves what `api/share_fetch.py` would: the session has counted the request, which waits.
A request that finds something, or that this module does not know, is left to that path. The codec
reads each request once: the next ones of a session differ in their correlation id and epoch alone.
"""

from functools import lru_cache

from josefine_broker.api.plain_fetch import Sender
from josefine_broker.api.share_fetch import WaitingShareFetch
from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.coordinators.share_partitions_host import has_nothing
from josefine_broker.engine.groups.share.config import ShareConfig
from josefine_broker.engine.groups.share.sessions import SESSIONS_MAX, ShareSession
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.engine.purgatory.purgatory import Encoded
from josefine_broker.engine.replicas.plain_batches import is_open
from josefine_broker.wire.apis import SHARE_FETCH
from josefine_broker.wire.codec import (
    RequestHeader,
    decode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.entities import share_fetch as e

__all__ = ["WaitingPlainShare", "fetch_shares_plain"]

KEY = SHARE_FETCH.to_bytes(2, "big")
BODY_BYTES = {b"\0\x01": 27, b"\0\x02": 29}
"""Version → the size of what follows group and member in a request that names no partition."""
NO_CORRELATION, ANY_EPOCH = bytes(4), b"\0\0\0\x01"
NO_CLIENT_ID, CLIENT_ID_MAX = 0xFFFF, 0xFF
"""A longer client id, which may have 32 KiB, is not plain: known requests stay in memory."""
GRAIN_MS, GRAINS_MIN = 8, 50
"""A wait of so many grains ends at the next full one, at most 2 % late: waits that end together
cost the event loop one turn."""
_new = tuple.__new__


def fetch_shares_plain(
    ctx: Context, frame: memoryview, sender: Sender
) -> "WaitingPlainShare | None":
    """The request, parked. None: nothing was done."""
    at = _epoch_at(frame)
    if not at or not is_open(ctx):
        return None
    known = _parsed(b"".join((frame[:4], NO_CORRELATION, frame[8:at], ANY_EPOCH, frame[at + 4 :])))
    if known is None:
        return None
    header, request = known
    session = ctx.clients.shares.sessions.of(request.group_id or "", request.member_id or "")
    if (
        session is None
        or session.epoch != int.from_bytes(frame[at : at + 4], "big")
        or not _has_nothing(ctx, session, config_of(ctx, session.group_id).share)
    ):
        return None
    session.count(ctx.clock.monotonic_ms())
    envelope = header, sender.principal, sender.address, sender.listener, None
    waiting = WaitingPlainShare(
        ctx, _new(RequestInfo, envelope), request, session, bytes(frame[4:8])
    )
    partitions = [led.tp for led in session.led]
    ctx.parked.park(waiting, partitions=partitions, group_id=session.group_id)
    return waiting


def _epoch_at(frame: memoryview) -> int:
    """Where the frame has the session's epoch. 0: it is another request, or not plain."""
    if frame[:2] != KEY:
        return 0
    try:
        size = frame[8] << 8 | frame[9]
        at = 10 if size == NO_CLIENT_ID else 10 + size
        if at > 10 + CLIENT_ID_MAX or frame[at]:  # tagged fields
            return 0
        at += 1
        for _ in ("group", "member"):
            length = frame[at]  # and one more: 0 is null, 1 is empty
            if not 1 < length < 0x80:
                return 0
            at += length
    except IndexError:
        return 0
    return at if len(frame) - at == BODY_BYTES.get(bytes(frame[2:4])) else 0


@lru_cache(SESSIONS_MAX)
def _parsed(frame: bytes) -> tuple[RequestHeader, e.ShareFetchRequest] | None:
    """The header, without its correlation id, and the body, without its epoch. None: not plain."""
    view = memoryview(frame)
    try:
        header = parse_request_header(view)
        request: e.ShareFetchRequest = decode_request(header, view)
    except CorruptData:  # the route ends the connection
        return None
    is_other = request.topics or request.forgotten_topics_data or request.is_renew_ack
    is_answered = request.max_wait_ms <= 0 or request.max_records <= 0 or request.max_bytes <= 0
    return None if is_other or is_answered else (header, request)


def _has_nothing(ctx: Context, session: ShareSession, config: ShareConfig) -> bool:
    """Whether there is nothing to acquire in any partition of the session, which has some."""
    if not session.led:
        known, group_id = ctx.clients.shares.led, session.group_id
        found = [known.get(ShareKey(group_id, *part)) for part in session.parts]
        session.led = () if None in found else tuple(found)
    for led in session.led:
        if not has_nothing(ctx, led, config):
            session.led = ()  # the next leader epoch has another one
            return False
    return bool(session.led)


@lru_cache(64)
def _empty(version: int, lock_ms: int) -> tuple[bytes, bytes]:
    """What precedes and what follows the correlation id in an answer without records."""
    answer = e.ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms, responses=(), node_endpoints=()
    )
    whole = b"".join(encode_response(SHARE_FETCH, version, 0, answer))
    return whole[:4], whole[8:]


class WaitingPlainShare(WaitingShareFetch):
    """A plain request, which waits for records."""

    __slots__ = ("_correlation",)

    def __init__(
        self,
        ctx: Context,
        info: RequestInfo,
        request: e.ShareFetchRequest,
        session: ShareSession,
        correlation: bytes,
    ) -> None:
        """`correlation`: its correlation id, which `info` does not have."""
        super().__init__(ctx, info, request, session)
        self._correlation = correlation
        self.parts = list(session.parts)
        if request.max_wait_ms >= GRAIN_MS * GRAINS_MIN:
            self.deadline_ms = -(-self.deadline_ms // GRAIN_MS) * GRAIN_MS

    @property
    def header(self) -> RequestHeader:
        """The request's header."""
        correlation_id = int.from_bytes(self._correlation, "big", signed=True)
        header: RequestHeader = self._info.header
        return header._replace(correlation_id=correlation_id)

    def expire(self, now_ms: int) -> None:
        """Answer that there is nothing. What is not plain any more has the general answer."""
        ctx, session = self._ctx, self._session
        is_current = ctx.clients.shares.sessions.is_open(session)
        config = config_of(ctx, session.group_id).share
        if not is_current or not is_open(ctx) or not _has_nothing(ctx, session, config):
            super().expire(now_ms)
            return
        size, rest = _empty(self._info.header.api_version, config.limits.lock_ms)
        self.complete(Encoded([b"".join((size, self._correlation, rest))]))
