"""The dashboard's page over given answers: what a cluster reports is under the test's control.

The files and headers are the dashboard's own; only the brokers' answers are given.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from josefine_cli.dashboard.server import FILES, HEADERS, PAGE

Json = dict[str, Any]


class Still:
    """The given answers. Mutable: a test changes them while the page is open."""

    def __init__(self, view: Json, answers: dict[str, Any]) -> None:
        """`answers`: path without its query → JSON."""
        self.answers = answers
        self.asked: list[str] = []
        """Paths and queries of the page's requests, in order."""
        self.url = ""
        self._view = view
        self._queues: set[asyncio.Queue[Json]] = set()

    def show(self, view: Json) -> None:
        """Send a view to the open page."""
        self._view = view
        for queue in self._queues:
            queue.put_nowait(view)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The stream of views."""
        response = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[Json] = asyncio.Queue()
        queue.put_nowait(self._view)
        self._queues.add(queue)
        while True:
            await response.write(f"data: {json.dumps(await queue.get())}\n\n".encode())

    async def answer(self, request: web.Request) -> web.Response:
        """A file of the page, or a given answer; an unknown path is 404."""
        if request.path in FILES:
            name, kind = FILES[request.path]
            body = (PAGE / name).read_bytes()
            return web.Response(body=body, content_type=kind, charset="utf-8", headers=HEADERS)
        self.asked.append(request.path_qs)
        if request.path not in self.answers:
            raise web.HTTPNotFound
        return web.json_response(self.answers[request.path])


@asynccontextmanager
async def still_dashboard(view: Json, answers: dict[str, Any]) -> AsyncIterator[Still]:
    """A served page; it ends with the block."""
    still = Still(view, answers)
    app = web.Application()
    app.router.add_get("/api/events", still.events)
    app.router.add_route("*", "/{path:.*}", still.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        still.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield still
    finally:
        await runner.cleanup()
