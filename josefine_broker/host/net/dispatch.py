"""The way from one request frame to its answer: header, route, decode, handler, encode; no
connection.

Rules: a request that cannot be parsed, or whose key and version are not served, closes its
connection (`DisconnectError`), except ApiVersions, which answers error 35 with a v0 body (KIP-511).
An unexpected exception of a handler is answered UNKNOWN_SERVER_ERROR and logged once; `Fatal` is
never caught here. No request is served from within another: only the handler itself changes the
broker's state while it runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.security import ANONYMOUS
from josefine_broker.engine.purgatory.purgatory import Encoded, Hangup, Parked
from josefine_broker.host.metrics import ApiStats, ConnectionStats
from josefine_broker.host.net.throttling import Throttle, Weight
from josefine_broker.wire.apis import API_VERSIONS
from josefine_broker.wire.codec import (
    RequestHeader,
    decode_request,
    encode_response,
    parse_request_header,
)

log = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview
Buffers = Sequence[Buffer]


class LastBuffers(tuple[Buffer, ...]):
    """An answer, perhaps empty, after which the connection is closed."""

    reason: str
    """Empty: already logged."""


class DisconnectError(Exception):
    """This connection cannot continue; the message has the reason. Not an error of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other end of a connection."""

    listener: str
    address: str
    principal: str = ANONYMOUS
    connected_ms: int | None = None
    """On the monotonic clock."""

    @property
    def host(self) -> str:
        """The client's machine: its address without the port."""
        return self.address.rpartition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One served API: its bounds, its handler with the context bound, its counters.

    `refuse` makes the answer to a request that is refused as a whole (None: no answer is owed).
    """

    name: str
    min_version: int
    max_version: int
    handle: Callable[[RequestHeader, Peer, Any], Any]
    refuse: Callable[[Any, KafkaError], Any]
    stats: ApiStats


class Waiting:
    """A request whose answer comes later: the parked token and the data for its encoding."""

    __slots__ = ("buffers", "header", "parked", "parked_ns", "started_ns", "stats", "weight")

    def __init__(
        self,
        parked: Parked,
        header: RequestHeader,
        stats: ApiStats,
        started_ns: int | None = None,
        weight: Weight | None = None,
    ) -> None:
        """`started_ns`: None is now."""
        self.parked = parked
        self.header = header
        self.stats = stats
        self.parked_ns = perf_counter_ns()
        self.started_ns = self.parked_ns if started_ns is None else started_ns
        self.weight = weight
        self.buffers: Buffers | None = None

    @property
    def waited_ms(self) -> int:
        """Time since the request started."""
        return (perf_counter_ns() - self.started_ns) // 1_000_000


Serve = Callable[[memoryview, Peer], Buffers | Waiting | None]
"""Serves some requests of one API as its route would; None: the route must serve it."""
Shortcut = tuple[Serve, ApiStats]
"""With the counters of its API."""
Again = Callable[[memoryview, Peer], Waiting | None]
"""Serves a request that is like the last one of its connection, and waits; None: nothing was done.
"""


class Dispatcher:
    """The literal route table, and the one answer that no route gives. One per broker."""

    __slots__ = (
        "_again", "_is_serving", "_routes", "_shortcuts", "_stats", "_throttle", "_unsupported",
    )  # fmt: skip

    def __init__(
        self,
        routes: Mapping[int, Route],
        unsupported_version: Callable[[], Any],
        stats: ConnectionStats,
        throttle: Throttle | None = None,
        shortcuts: Mapping[int, Shortcut] = MappingProxyType({}),
        again: Again = lambda *_: None,
    ) -> None:
        """`unsupported_version` makes the ApiVersions answer that carries error 35. Without a
        `throttle` no client is limited. `shortcuts`: by API key, below 256; tried first."""
        self._again = again
        self._throttle = throttle
        self._shortcuts = shortcuts
        self._routes = dict(routes)
        self._unsupported = unsupported_version
        self._stats = stats
        self._is_serving = False

    def serve_again(self, frame: memoryview, peer: Peer) -> Waiting | None:
        """See `Again`; for the only request that its connection has under way."""
        try:
            return self._again(frame, peer)
        except Exception:  # `serve` answers
            log.exception("shortcut failed", extra={"client": peer.address})
            return None

    def serve(self, frame: memoryview, peer: Peer) -> Buffers | Waiting | None:
        """The encoded answer, a `Waiting`, or None when none is owed. Raises DisconnectError."""
        started_ns = perf_counter_ns()
        shortcut = self._shortcuts.get(frame[1]) if len(frame) > 1 and not frame[0] else None
        if shortcut is not None:
            serve, stats = shortcut
            try:
                served = serve(frame, peer)
            except Exception:  # the route answers, with an error code if it fails, too
                log.exception("shortcut failed", extra={"client": peer.address})
                served = None
            if served is not None:
                if type(served) is not Waiting:
                    stats.record(perf_counter_ns() - started_ns)
                return served
        try:
            header = parse_request_header(frame)
            api_key, api_version, correlation_id, _, _ = header
            route = self._routes.get(api_key)
            if route is None or not route.min_version <= api_version <= route.max_version:
                return self._refuse_version(header)
            body = decode_request(header, frame)
        except CorruptData as error:
            self._stats.closed.malformed += 1
            raise DisconnectError(f"malformed request: {error}") from error
        except KafkaError as error:
            self._stats.closed.unsupported += 1
            raise DisconnectError(f"request not served: {error}") from error
        throttle, weight = self._throttle, None
        if throttle is not None and throttle.is_needed:
            body, weight = throttle.begin(header, peer.principal, body, len(frame))
        # A handler must not reach another handler through a callback: it would see the state change
        # in its middle.
        assert not self._is_serving, "a request is served from within another one"
        self._is_serving = True
        try:
            answer = route.handle(header, peer, body)
        except KafkaError as error:
            route.stats.errors += 1
            answer = route.refuse(body, error)
        except Exception:
            answer = self._report_failure(route, header, peer, body)
        finally:
            self._is_serving = False
        worked_ns = perf_counter_ns() - started_ns
        if weight is not None:
            weight = weight._replace(worked_ns=worked_ns)
        if isinstance(answer, Parked):
            return Waiting(answer, header, route.stats, started_ns, weight)
        route.stats.record(worked_ns)
        if isinstance(answer, Hangup):
            return _last(header, answer)
        if weight is not None and throttle is not None:
            return throttle.encoded(header, answer, weight)
        if answer is None:
            return None
        return encode_response(api_key, api_version, correlation_id, answer)

    def finish_now(
        self, waiting: Waiting, send_now: Callable[[Waiting, Buffer], bool], parked: Parked
    ) -> bool:
        """Send the answer of a parked request that is done, and count it then. False: it is not one
        buffer, or was not sent."""
        response = parked.response
        if type(response) is not Encoded or len(response.buffers) != 1:
            return False
        if not send_now(waiting, response.buffers[0]):
            return False
        now_ns, stats = perf_counter_ns(), waiting.stats
        stats.record(now_ns - waiting.started_ns)
        stats.waited_ns += now_ns - waiting.parked_ns
        return True

    def finish(self, waiting: Waiting) -> Buffers:
        """Encode the answer of a parked request that is done; nothing when none is owed."""
        header = waiting.header
        now_ns, stats = perf_counter_ns(), waiting.stats
        stats.record(now_ns - waiting.started_ns)
        stats.waited_ns += now_ns - waiting.parked_ns
        response = waiting.parked.response
        if type(response) is Encoded:
            return response.buffers
        if isinstance(response, Hangup):
            return _last(header, response)
        if waiting.weight is not None and self._throttle is not None:
            return self._throttle.encoded(header, response, waiting.weight)
        if response is None:
            return ()
        return encode_response(header.api_key, header.api_version, header.correlation_id, response)

    def _refuse_version(self, header: RequestHeader) -> Buffers:
        if header.api_key == API_VERSIONS:
            return encode_response(API_VERSIONS, 0, header.correlation_id, self._unsupported())
        self._stats.closed.unsupported += 1
        raise DisconnectError(
            f"API key {header.api_key} version {header.api_version} is not served"
        )

    def _report_failure(self, route: Route, header: RequestHeader, peer: Peer, body: Any) -> Any:
        route.stats.errors += 1
        self._stats.handler_failures += 1
        log.exception(
            "request failed",
            extra={
                "api": route.name,
                "version": header.api_version,
                "correlation_id": header.correlation_id,
                "client_id": header.client_id,
                "client": peer.address,
                "listener": peer.listener,
            },
        )
        failure = KafkaError(ErrorCode.unknown_server_error, "the broker failed on this request")
        return route.refuse(body, failure)


def _last(header: RequestHeader, hangup: Hangup) -> LastBuffers:
    answer = hangup.answer
    buffers: Buffers = ()
    if answer is not None:
        buffers = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
    last = LastBuffers(buffers)
    last.reason = hangup.reason
    return last
