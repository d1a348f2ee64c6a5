"""`/debug`: the current work of a broker: its tasks and threads with their stacks, and the waiting
requests with their clients and reasons. JSON, or text for people. Reads only.

Rules: only the envelope of a request is shown; of each kind as many as fit, the oldest first, and
the number of omitted ones.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from types import CoroutineType, FrameType
from typing import Any

from josefine_broker.engine.context import Context
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.host.net.connection import Connection
from josefine_broker.host.net.dispatch import Waiting
from josefine_broker.host.net.server import Server

TOLD_MAX = 500
"""Limit of tasks, and of requests."""
PLACES_MAX = 20
"""Limit of one stack, the innermost frames."""
FORMS = ("json", "text")


def debug_view(ctx: Context, server: Server, query: Mapping[str, str]) -> dict[str, Any] | str:
    """The body of `/debug`; with `?as=text` as lines. Raises ValueError."""
    form = query.get("as", "json")
    if form not in FORMS:
        raise ValueError(f"as={form!r} is not one of {', '.join(FORMS)}")
    tasks = sorted(map(_task, asyncio.all_tasks()), key=lambda each: str(each["name"]))
    now_ms = ctx.clock.monotonic_ms()
    requests = [
        _request(connection, each, now_ms)
        for connection in server.clients
        for each in connection.waiting
    ]
    requests.sort(key=lambda each: -int(each["waited_ms"]))
    kinds = Counter(_kind(each) for each in ctx.parked.waiting)
    view: dict[str, Any] = {
        "broker_id": ctx.broker_id,
        "connections": server.connection_count,
        "requests_queued": server.requests_queued,
        "parked": dict(sorted(kinds.items())),
        "requests": requests[:TOLD_MAX],
        "requests_omitted": max(0, len(requests) - TOLD_MAX),
        "tasks": tasks[:TOLD_MAX],
        "tasks_omitted": max(0, len(tasks) - TOLD_MAX),
        "threads": list(_threads()),
    }
    return "\n".join(_lines(view)) + "\n" if form == "text" else view


def _request(connection: Connection, waiting: Waiting, now_ms: int) -> dict[str, Any]:
    """A request that was started and has no answer yet."""
    header, parked, peer = waiting.header, waiting.parked, connection.peer
    return {
        "api": waiting.stats.name,
        "version": header.api_version,
        "correlation_id": header.correlation_id,
        "client_id": header.client_id,
        "client": peer.address,
        "listener": peer.listener,
        "principal": peer.principal,
        "waited_ms": waiting.waited_ms,
        "left_ms": parked.deadline_ms - now_ms,
        "kind": _kind(parked),
        "partitions": [f"{topic}-{index}" for topic, index in parked.partitions[:PLACES_MAX]],
        "partitions_omitted": max(0, len(parked.partitions) - PLACES_MAX),
        "follower": parked.follower,
    }


def _kind(parked: Parked) -> str:
    """The class of its wait: `api.fetch.WaitingConsumer`."""
    kind = type(parked)
    return f"{kind.__module__.removeprefix('josefine_broker.')}.{kind.__qualname__}"


def _task(task: asyncio.Task[Any]) -> dict[str, Any]:
    coroutine = task.get_coro()
    return {
        "name": task.get_name(),
        "what": getattr(coroutine, "__qualname__", str(coroutine)),
        "stack": list(_awaited(coroutine))[-PLACES_MAX:],
    }


def _awaited(coroutine: object) -> Iterator[str]:
    """The place of a coroutine, then the place of what it awaits, and so on."""
    while isinstance(coroutine, CoroutineType):
        if coroutine.cr_frame is not None:
            yield _place(coroutine.cr_frame)
        coroutine = coroutine.cr_await


def _threads() -> Iterator[dict[str, Any]]:
    names = {each.ident: each.name for each in threading.enumerate()}
    for ident, frame in sorted(sys._current_frames().items()):
        places: list[str] = []
        at: FrameType | None = frame
        while at is not None and len(places) < PLACES_MAX:
            places.append(_place(at))
            at = at.f_back
        yield {"name": names.get(ident, "another"), "stack": places[::-1]}


def _place(frame: FrameType) -> str:
    """`josefine_broker.host.ticker:92 _expire`: without paths of this machine."""
    name = frame.f_globals.get("__name__", "?")
    return f"{name}:{frame.f_lineno} {frame.f_code.co_name}"


def _lines(view: Mapping[str, Any]) -> Iterator[str]:
    yield f"broker {view['broker_id']}: {view['connections']} connections"
    yield f"requests queued: {view['requests_queued']}"
    for kind, count in view["parked"].items():
        yield f"parked: {count} {kind}"
    for each in view["requests"]:
        what = f"{each['api']} v{each['version']} #{each['correlation_id']}"
        who = f"{each['principal']} {each['client']} {each['client_id']!r} by {each['listener']}"
        news = " ".join(each["partitions"])
        if each["follower"] is not None:
            news = f"follower {each['follower']}"
        waits = f"waited {each['waited_ms']} ms, {each['left_ms']} ms left"
        yield f"request: {what} of {who}, {waits}: {each['kind']} {news}".rstrip()
    yield from _omitted(view, "requests")
    for kind in ("task", "thread"):
        for each in view[f"{kind}s"]:
            yield f"{kind}: {each['name']} {each.get('what', '')}".rstrip()
            yield from (f"    {place}" for place in each["stack"])
    yield from _omitted(view, "tasks")


def _omitted(view: Mapping[str, Any], kind: str) -> Iterator[str]:
    if view[f"{kind}_omitted"]:
        yield f"and {view[f'{kind}_omitted']} more {kind}"
