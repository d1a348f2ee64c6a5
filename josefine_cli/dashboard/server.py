"""The dashboard's HTTP server: the page, its events, the message browser, and optional changes.

Rules: nothing is loaded from other hosts, and only the page's own script runs (CSP); a request with
another Host than the served address is refused, so that no page of another origin can read through
a DNS name that points here (DNS rebinding); a record's bytes are data, never markup.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.base.errors import UserError
from josefine_cli.dashboard.access_page import access_page
from josefine_cli.dashboard.browse import Decode, asked, browse
from josefine_cli.dashboard.changes import BODY_BYTES_MAX, CHANGES, change
from josefine_cli.dashboard.pipelines import PipelineWatcher
from josefine_cli.dashboard.timeline import ENTRIES_MAX
from josefine_cli.dashboard.topic_page import topic_page
from josefine_cli.dashboard.watching import Watcher
from josefine_cli.kafka.group_description import description_of

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/base.js": ("base.js", "text/javascript"),
    "/chain.js": ("chain.js", "text/javascript"),
    "/changes.js": ("changes.js", "text/javascript"),
    "/chart.js": ("chart.js", "text/javascript"),
    "/groups.js": ("groups.js", "text/javascript"),
    "/messages.js": ("messages.js", "text/javascript"),
    "/pipelines.js": ("pipelines.js", "text/javascript"),
    "/topics.js": ("topics.js", "text/javascript"),
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

Json = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Page = Callable[[BlockingClient, Mapping[str, str]], Json]
"""What brokers answer to a client, by the query of a request."""


def application(
    watcher: Watcher,
    connect: Callable[[], BlockingClient],
    host: str,
    pipelines: PipelineWatcher | None = None,
    token: str | None = None,
    decode: Decode | None = None,
) -> web.Application:
    """`connect` creates a client for the message browser, `host` is the listening address. With a
    `token`, requests that have it may change topics and write records. `decode` reads values."""
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

    async def timeline(_request: web.Request) -> web.Response:
        return web.json_response(watcher.timeline.newest(ENTRIES_MAX))

    async def sinks(_request: web.Request) -> web.Response:
        return web.json_response(None if pipelines is None else await pipelines.pages())

    async def changed(request: web.Request) -> web.Response:
        return await change(request, connect, token)

    def page_of(work: Page) -> Handler:
        """A page of what brokers answer to a client. One is made at a time: an eager reader must
        not open many connections."""

        async def answer(request: web.Request) -> web.StreamResponse:
            async with browsing:
                return await _page(request, connect, work)

        return answer

    app.router.add_get("/api/events", events)
    app.router.add_get("/api/topic", topic)
    app.router.add_get("/api/timeline", timeline)
    for path, work in _pages(watcher, decode).items():
        app.router.add_get(path, page_of(work))
    app.router.add_get("/api/pipelines", sinks)
    for path in CHANGES:
        app.router.add_post(path, changed)
    return app


def _pages(watcher: Watcher, decode: Decode | None) -> dict[str, Page]:
    """Path → the page of what brokers answer to a client."""

    def group(client: BlockingClient, query: Mapping[str, str]) -> Json:
        found = description_of(client, query.get("name", ""))
        watcher.lags.add(found["group"], time.time_ns() // 1_000_000, found["lag"])
        return found | {"history": watcher.lags.of(found["group"])}

    return {
        "/api/records": lambda client, query: browse(client, asked(query), decode),
        "/api/topic/more": lambda client, query: topic_page(client, query.get("name", "")),
        "/api/group": group,
        "/api/access": lambda client, _query: access_page(client),
    }


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


async def _page(
    request: web.Request, connect: Callable[[], BlockingClient], asked_for: Page
) -> web.Response:
    query = dict(request.query)

    def work() -> Json:
        with connect() as client:
            return asked_for(client, query)

    try:
        return web.json_response(await asyncio.to_thread(work))
    except (ValueError, KafkaError, CorruptData, UserError) as error:
        return web.json_response({"error": str(error)}, status=400)
