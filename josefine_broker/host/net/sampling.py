"""A dispatcher that samples requests randomly and makes spans of them. A broker without traces uses
the plain dispatcher, which knows nothing of it.

A span is recorded when its answer is encoded: a request whose client is gone by then has none. SASL
and the text protocol do not pass here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.host.metrics import ApiStats, ConnectionStats
from josefine_broker.host.net.dispatch import Buffers, Dispatcher, Peer, Route, Waiting
from josefine_broker.host.net.throttling import Throttle
from josefine_broker.host.spans import Span
from josefine_broker.wire.codec import RequestHeader, parse_request_header


class Begun(NamedTuple):
    """A sampled request before its answer."""

    header: RequestHeader
    peer: Peer
    frame_bytes: int
    started_ns: int
    stats: ApiStats

    def ended(self, buffers: Buffers | None, *, failed: bool = False, parked_ns: int = 0) -> Span:
        """`failed`: refused as a whole; `parked_ns`: time spent waiting, without work."""
        end_ns = time_ns()
        header, peer, name = self.header, self.peer, self.stats.name
        host, _, port = peer.address.rpartition(":")
        attributes: dict[str, str | int | float | bool] = {
            "rpc.system": "kafka",
            "rpc.method": name,
            "kafka.api.key": header.api_key,
            "kafka.api.version": header.api_version,
            "kafka.client.id": header.client_id or "",
            "enduser.id": peer.principal,
            "client.address": host,
            "client.port": int(port or 0),
            "josefine.listener": peer.listener,
            "josefine.parked_ms": parked_ns / 1e6,
            "josefine.request.bytes": self.frame_bytes,
            "josefine.response.bytes": sum(map(len, buffers or ())),
        }
        start_ns = end_ns - (perf_counter_ns() - self.started_ns)
        return Span(name, start_ns, end_ns, failed, attributes)


class WaitingSampled(Waiting):
    """A waiting request that has a span."""

    __slots__ = ("begun",)

    def __init__(self, waiting: Waiting, begun: Begun) -> None:
        super().__init__(
            waiting.parked, waiting.header, waiting.stats, waiting.started_ns, waiting.weight
        )
        self.parked_ns = waiting.parked_ns
        self.begun = begun


class SamplingDispatcher(Dispatcher):
    """The plain dispatcher, plus spans for a `ratio` of the requests."""

    __slots__ = ("_chance", "_put", "_ratio")

    def __init__(
        self,
        routes: Mapping[int, Route],
        unsupported_version: Callable[[], Any],
        stats: ConnectionStats,
        throttle: Throttle | None = None,
        *,
        ratio: float,
        chance: Callable[[], float],
        put: Callable[[Span], None],
    ) -> None:
        """`chance` returns a number from 0 up to, but excluding, 1."""
        super().__init__(routes, unsupported_version, stats, throttle)
        self._ratio = ratio
        self._chance = chance
        self._put = put

    def serve(self, frame: memoryview, peer: Peer) -> Buffers | Waiting | None:
        """See Dispatcher."""
        begun = self._begun(frame, peer) if self._chance() < self._ratio else None
        if begun is None:
            return super().serve(frame, peer)
        errors = begun.stats.errors
        answer = super().serve(frame, peer)
        if isinstance(answer, Waiting):
            return WaitingSampled(answer, begun)
        self._put(begun.ended(answer, failed=begun.stats.errors != errors))
        return answer

    def finish(self, waiting: Waiting) -> Buffers:
        """See Dispatcher."""
        buffers = super().finish(waiting)
        if isinstance(waiting, WaitingSampled):
            parked_ns = perf_counter_ns() - waiting.parked_ns
            self._put(waiting.begun.ended(buffers, parked_ns=parked_ns))
        return buffers

    def _begun(self, frame: memoryview, peer: Peer) -> Begun | None:
        """None for a request that will not be served."""
        started_ns = perf_counter_ns()
        try:
            header = parse_request_header(frame)
        except (CorruptData, KafkaError):
            return None
        route = self._routes.get(header.api_key)
        if route is None:
            return None
        return Begun(header, peer, len(frame), started_ns, route.stats)
