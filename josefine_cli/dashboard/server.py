"""The dashboard's HTTP server: the page, its events, the message browser, and optional changes.

Rules: nothing is loaded from other hosts, and only the page's own script runs (CSP); a request with
another Host than the served address is refused, so that no page of another origin can read through
a DNS name that points here (DNS rebinding); a record's bytes are data, never markup.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.dashboard.browse import asked, browse
from josefine_cli.dashboard.changes import BODY_BYTES_MAX, CHANGES, change
from josefine_cli.dashboard.pipelines import PipelineWatcher
from josefine_cli.dashboard.watching import Watcher

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/chain.js": ("chain.js", "text/javascript"),
    "/changes.js": ("changes.js", "text/javascript"),
    "/chart.js": ("chart.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
LOOKERS_MAX = 100
KEEP_ALIVE_S = 15.0
LOCAL = {"localhost", "127.0.0.1", "[::1]"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(
    watcher: Watcher,
    connect: Callable[[], BlockingClient],
    host: str,
    pipelines: PipelineWatcher | None = None,
    token: str | None = None,
) -> web.Application:
    """`connect` creates a client for the message browser, `host` is the listening address. With a
    `token`, requests that have it may change topics and write records."""
    allowed = allowed_hosts(host)

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        name = request.host.rpartition(":")[0] if ":" in request.host else request.host
        if allowed and name not in allowed:
            raise web.HTTPForbidden(text="this address is not served here\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    app = web.Application(middlewares=[guarded], client_max_size=BODY_BYTES_MAX)
    for path, (name, kind) in FILES.items():
        app.router.add_get(path, _file(PAGE / name, kind))
    # Each viewer holds a stream, each look at records fetches from brokers. Both are bounded: a
    # forgotten tab or eager reloads must not load the cluster.
    lookers = asyncio.Semaphore(LOOKERS_MAX)
    browsing = asyncio.Semaphore(1)

    async def events(request: web.Request) -> web.StreamResponse:
        if lookers.locked():
            raise web.HTTPServiceUnavailable(text="too many viewers of this page\n")
        async with lookers:
            return await _events(request, watcher)

    async def topic(request: web.Request) -> web.Response:
        return web.json_response(await watcher.topic(request.query.get("name", "")))

    async def sinks(_request: web.Request) -> web.Response:
        return web.json_response(None if pipelines is None else await pipelines.rows())

    async def changed(request: web.Request) -> web.Response:
        return await change(request, connect, token)

    async def records(request: web.Request) -> web.Response:
        async with browsing:
            return await _records(request, connect)

    app.router.add_get("/api/events", events)
    app.router.add_get("/api/topic", topic)
    app.router.add_get("/api/records", records)
    app.router.add_get("/api/pipelines", sinks)
    for path in CHANGES:
        app.router.add_post(path, changed)
    return app


def allowed_hosts(host: str) -> set[str]:
    """Allowed names in the Host header; empty: any, because it listens on every address."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return LOCAL | {host} if host == "localhost" else {host}
    if address.is_unspecified:
        return set()
    return LOCAL if address.is_loopback else {host}


def _file(path: Path, kind: str) -> Handler:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=path.read_bytes(), content_type=kind, charset="utf-8")

    return answer


async def _events(request: web.Request, watcher: Watcher) -> web.StreamResponse:
    headers = HEADERS | {"Content-Type": "text/event-stream"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    queue = watcher.enter()
    try:
        with suppress(ConnectionError):
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
                    await response.write(f"data: {text}\n\n".encode())
                except TimeoutError:
                    await response.write(b": still here\n\n")
    finally:
        watcher.leave(queue)
    return response


async def _records(request: web.Request, connect: Callable[[], BlockingClient]) -> web.Response:
    def work() -> dict[str, Any]:
        wanted = asked(request.query)
        with connect() as client:
            return browse(client, wanted)

    try:
        return web.json_response(await asyncio.to_thread(work))
    except (ValueError, KafkaError, CorruptData) as error:
        return web.json_response({"error": str(error)}, status=400)
