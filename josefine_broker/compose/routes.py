"""The routes of one broker: the table of served APIs with its context bound into each handler."""

from collections.abc import Callable
from typing import Any

from josefine_broker.api.table import SERVED
from josefine_broker.engine.context import Context, Handler, RequestInfo
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import Peer, Route
from josefine_broker.wire.codec import RequestHeader

_new = tuple.__new__


def routes(ctx: Context, metrics: Metrics) -> dict[int, Route]:
    """Routes by API key."""
    return {
        key: Route(
            name=spec.name,
            min_version=spec.min_version,
            max_version=spec.max_version,
            handle=_bind(ctx, handler),
            refuse=refuse,
            stats=metrics.api(spec.name),
        )
        for key, (spec, handler, refuse) in SERVED.items()
    }


def _bind(ctx: Context, handler: Handler) -> Callable[[RequestHeader, Peer, Any], Any]:
    def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
        # Like RequestInfo(...), whose generated constructor costs twice as much.
        info = _new(RequestInfo, (header, peer.principal, peer.address, peer.listener))
        return handler(ctx, info, body)

    return handle
