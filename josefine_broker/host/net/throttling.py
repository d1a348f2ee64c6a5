"""Quotas at a broker's listeners: requests and answers are measured, and a client above its quota
is notified (`throttle_time_ms`) and not read for that long (KIP-219).

Traffic between brokers is not measured: their fetches, and transaction markers.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from josefine_broker.base.quotas import CONSUMER, PRODUCER, REQUEST, Quotas
from josefine_broker.engine.limits.quotas import QuotaKeeper
from josefine_broker.host.metrics import ThrottleStats
from josefine_broker.wire.apis import FETCH, PRODUCE, WRITE_TXN_MARKERS
from josefine_broker.wire.codec import RequestHeader, encode_response
from josefine_broker.wire.primitives import Buffer


class Throttled(tuple[Buffer, ...]):
    """An answer, perhaps empty, after which its connection is not read for a while."""

    throttle_ms: int


class Weight(NamedTuple):
    """A measured request, and its cost so far."""

    user: str
    client_id: str
    request_bytes: int
    worked_ns: int


class Throttle:
    """The throttle of one broker. Mutated on the event loop only."""

    __slots__ = ("_current", "_keeper", "_monotonic_ms", "_stats")

    def __init__(
        self,
        current: Callable[[], Quotas],
        monotonic_ms: Callable[[], int],
        stats: Mapping[str, ThrottleStats],
    ) -> None:
        """`current`: the cluster's quotas now."""
        self._current = current
        self._monotonic_ms = monotonic_ms
        self._keeper = QuotaKeeper()
        self._stats = stats

    @property
    def is_needed(self) -> bool:
        """Whether any quota is set."""
        return self._keeper.follow(self._current())

    def begin(
        self, header: RequestHeader, principal: str, body: Any, request_bytes: int
    ) -> tuple[Any, Weight | None]:
        """The request to be served, and its weight; None: it is not measured. A fetch gets at most
        one second's quota at once."""
        key = header.api_key
        if key == WRITE_TXN_MARKERS or (key == FETCH and body.replica_id >= 0):
            return body, None
        user, client_id = principal.partition(":")[2], header.client_id or ""
        if key == FETCH:
            found = self._keeper.bound(CONSUMER, user, client_id)
            if found is not None and found[0] < body.max_bytes:
                body = body._replace(max_bytes=max(1, int(found[0])))
        return body, Weight(user, client_id, request_bytes, 0)

    def encoded(self, header: RequestHeader, answer: Any, weight: Weight) -> Throttled | list[Any]:
        """The answer as buffers; None: none is owed."""
        buffers = [] if answer is None else _encoded(header, answer)
        now_ms, user, client_id = self._monotonic_ms(), weight.user, weight.client_id
        amounts = {REQUEST: weight.worked_ns / 1e9}
        if header.api_key == PRODUCE:
            amounts[PRODUCER] = weight.request_bytes
        elif header.api_key == FETCH:
            amounts[CONSUMER] = sum(map(len, buffers))
        throttle_ms = 0
        for key, amount in amounts.items():
            quiet_ms = self._keeper.charge(key, user, client_id, amount, now_ms)
            if quiet_ms:
                self._stats[key].answers += 1
                self._stats[key].throttled_ms += quiet_ms
                throttle_ms = max(throttle_ms, quiet_ms)
        if not throttle_ms:
            return buffers
        told = () if answer is None else _encoded(header, _told(answer, throttle_ms))
        throttled = Throttled(told)
        throttled.throttle_ms = throttle_ms
        return throttled


def _encoded(header: RequestHeader, answer: Any) -> list[Buffer]:
    return encode_response(header.api_key, header.api_version, header.correlation_id, answer)


def _told(answer: Any, throttle_ms: int) -> Any:
    """The answer with its throttle time, where it has that field."""
    if hasattr(answer, "_replace"):
        return answer._replace(throttle_ms=throttle_ms)
    if hasattr(answer, "throttle_time_ms"):
        return replace(answer, throttle_time_ms=throttle_ms)
    return answer
