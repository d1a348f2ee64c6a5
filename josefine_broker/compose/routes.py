"""The routes of one broker: the table of served APIs with its context bound into each handler, and
the turn that serves plain produce requests together.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from josefine_broker.api.plain_fetch import WaitingPlain, fetch_plain
from josefine_broker.api.plain_heartbeats import beat_classic, beat_consumer, beat_share
from josefine_broker.api.plain_offset_commit import commit_plain
from josefine_broker.api.plain_replica_fetch import FETCH_KEY, fetch_again, fetch_for_follower
from josefine_broker.api.plain_share_fetch import fetch_shares_plain
from josefine_broker.api.produce import refuse_late, refuse_parts
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import KafkaError
from josefine_broker.compose.tracing import Tracing
from josefine_broker.engine.context import Context, Handler, RequestInfo
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.plain_batches import append_alone, append_groups, is_open
from josefine_broker.engine.replicas.plain_parts import append_parts
from josefine_broker.host.metrics import ApiStats, Metrics
from josefine_broker.host.net.dispatch import (
    Again,
    Buffers,
    Dispatcher,
    Peer,
    Route,
    Serve,
    Shortcut,
    Waiting,
)
from josefine_broker.host.net.late_answers import LateAnswers
from josefine_broker.host.net.produce_turn import Appends, ProduceTurn
from josefine_broker.records import plain_fetch
from josefine_broker.records.plain_produce import compiled
from josefine_broker.wire.apis import (
    APIS,
    CONSUMER_GROUP_HEARTBEAT,
    FETCH,
    HEARTBEAT,
    OFFSET_COMMIT,
    PRODUCE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
)
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


def produce_turn(
    ctx: Context,
    metrics: Metrics,
    tracing: Tracing,
    on_fatal: Callable[[BaseException], None],
    answering: Callable[[Callable[[], None]], None],
) -> ProduceTurn | None:
    """On the loop; `answering` is the ticker's. None where the extension is missing, or each
    request may be traced."""
    if compiled is None or tracing.dispatcher is not Dispatcher:
        return None
    loop = asyncio.get_running_loop()
    return ProduceTurn(
        compiled,
        Appends(
            alone=partial(append_alone, ctx, compiled),
            groups=partial(append_groups, ctx, compiled),
            parts=partial(append_parts, ctx, compiled),
        ),
        partial(is_open, ctx),
        LateAnswers(
            compiled,
            partial(refuse_late, ctx),
            partial(refuse_parts, ctx),
            ctx.parked.cancel,
            metrics.api(APIS[PRODUCE].name),
        ),
        metrics.connections,
        on_fatal,
        # What a turn completes is answered at its end, not in the turn after it.
        lambda work: loop.call_soon(answering, work),
    )


def shortcuts(
    ctx: Context, metrics: Metrics, tracing: Tracing
) -> dict[str, Mapping[int, Shortcut] | Again]:
    """The dispatcher's shortcuts, as its arguments; none where each request may be traced."""
    if tracing.dispatcher is not Dispatcher:
        return {}
    found: dict[int, Shortcut] = {}
    for key, serve in (
        (FETCH, _fetch_shortcut(ctx, metrics.api(APIS[FETCH].name))),
        (SHARE_FETCH, _share_fetch_shortcut(ctx, metrics.api(APIS[SHARE_FETCH].name))),
        (OFFSET_COMMIT, _commit_shortcut(ctx, metrics.api(APIS[OFFSET_COMMIT].name))),
        (HEARTBEAT, partial(beat_classic, ctx)),
        (CONSUMER_GROUP_HEARTBEAT, partial(beat_consumer, ctx)),
        (SHARE_GROUP_HEARTBEAT, partial(beat_share, ctx)),
    ):
        if serve is not None:
            found[key] = serve, metrics.api(APIS[key].name)
    stats = metrics.api(APIS[FETCH].name)

    def again(frame: memoryview, peer: Peer) -> Waiting | None:
        found = fetch_again(ctx, frame, peer) if frame[:2] == FETCH_KEY else None
        return None if found is None else Waiting(found, found.header, stats)

    return {"shortcuts": found, "again": again}


def _fetch_shortcut(ctx: Context, stats: ApiStats) -> Serve | None:
    """None where the extension is missing."""
    plain = plain_fetch.compiled
    _, handler, refuse = SERVED[FETCH]
    handle = _bind(ctx, handler)
    if plain is None:
        return None

    def serve(frame: memoryview, peer: Peer) -> Buffers | Waiting | None:
        answer = fetch_plain(ctx, plain, frame, peer)
        if answer is None:
            handled = partial(_handled, handle, refuse, stats, peer)
            found = fetch_for_follower(ctx, frame, peer, handled)
            if found is None:
                return None
            header, served = found
            return Waiting(served, header, stats) if isinstance(served, Parked) else served
        return Waiting(answer, answer.header, stats) if isinstance(answer, WaitingPlain) else answer

    return serve


def _share_fetch_shortcut(ctx: Context, stats: ApiStats) -> Serve:
    def serve(frame: memoryview, peer: Peer) -> Waiting | None:
        waiting = fetch_shares_plain(ctx, frame, peer)
        return None if waiting is None else Waiting(waiting, waiting.header, stats)

    return serve


def _commit_shortcut(ctx: Context, stats: ApiStats) -> Serve:
    def serve(frame: memoryview, peer: Peer) -> Buffers | Waiting | None:
        answer = commit_plain(ctx, frame, peer)
        if isinstance(answer, tuple):
            header, parked = answer
            return Waiting(parked, header, stats)
        return answer

    return serve


def _handled(
    handle: Any, refuse: Any, stats: ApiStats, peer: Peer, header: RequestHeader, request: Any
) -> Any:
    """The handler's answer or refusal, as the dispatcher would count it."""
    try:
        return handle(header, peer, request)
    except KafkaError as error:
        stats.errors += 1
        return refuse(request, error)


def _bind(ctx: Context, handler: Handler) -> Callable[[RequestHeader, Peer, Any], Any]:
    def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
        # Like RequestInfo(...), whose generated constructor costs twice as much.
        envelope = header, peer.principal, peer.address, peer.listener, peer.connected_ms
        info = _new(RequestInfo, envelope)
        return handler(ctx, info, body)

    return handle
