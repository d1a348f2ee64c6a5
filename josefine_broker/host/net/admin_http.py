"""The admin listener: `/health`, `/metrics`, the given pages and actions, on aiohttp.
`admin_door.py` decides who may read and who may act.

`/health` is 200 only while every check passes, 503 otherwise; the body names each check, so that a
person and an orchestrator read the same page. `/health/live` answers whether a restart would help,
and `/health/ready` whether clients are served: each is a subset of the checks, as one sentence. A
page is JSON or text; an invalid query is 400. An action is a POST with a JSON content type, which
no foreign web page can send unasked. Without access control `/debug` and actions are served to this
machine only. Clients that open connections here and stay silent take no descriptors from the data
path.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.acceptor import Acceptor
from josefine_broker.host.net.admin_door import Door
from josefine_broker.host.net.admin_log import AdminLog
from josefine_broker.host.net.tls import Tls

CONNECTIONS_MAX = 64
"""People, a scraper, an orchestrator's probes; above this the oldest connection is closed."""
STOP_SECONDS = 0.5
"""How long a running scrape may delay a shutdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one health check, and the fact it is based on."""

    ok: bool
    detail: str


PRIVATE = (
    "shown on this machine only; with acls.enabled to every user that may DESCRIBE the cluster"
)

PRIVATE_ACTION = (
    "done on this machine only; with acls.enabled for every user that may ALTER the cluster"
)
ACTION_TYPE = "application/json"

Checks = Mapping[str, Callable[[], Check]]
LIVE = ("process",)
"""A broker that waits for others is live: a restart would not help."""
READY = ("process", "listeners", "metadata", "cluster")
"""A damaged log or a full disk is reported by `/health`; the other partitions are served."""
Body = Mapping[str, Any] | str
Page = Callable[[Mapping[str, str]], Body | Awaitable[Body]]
"""From the query to a JSON body, or text. Raises ValueError with a sentence about the query."""


class AdminServer:
    """One aiohttp site over an already bound socket."""

    def __init__(
        self,
        metrics: Metrics,
        checks: Checks,
        identity: Callable[[], Mapping[str, object]],
        pages: Mapping[str, Page] | None = None,
        door: Door | None = None,
        private: Mapping[str, Page] | None = None,
        actions: Mapping[str, Page] | None = None,
    ) -> None:
        """Without a `door` every client sees `pages`, and only this machine the `private` ones and
        the `actions`."""
        self._metrics = metrics
        self._checks = checks
        self._identity = identity
        self._pages = pages or {}
        self._private = private or {}
        self._actions = actions or {}
        self._door = door
        self._runner: web.AppRunner | None = None
        self._acceptor: Acceptor | None = None

    async def start(
        self,
        bound: socket.socket,
        tls: Tls | None = None,
        on_handshake_failed: Callable[[str, OSError], None] | None = None,
    ) -> None:
        """Serve there; https with `tls`, whose failures are reported as in `Acceptor`."""
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/health/live", partial(self._probe, LIVE))
        app.router.add_get("/health/ready", partial(self._probe, READY))
        app.router.add_get("/metrics", self._exposition)
        for path, page in self._pages.items():
            app.router.add_get(path, partial(self._page, page))
        for path, page in self._private.items():
            app.router.add_get(path, partial(self._private_page, page))
        for path, page in self._actions.items():
            app.router.add_post(path, partial(self._action, page))
        # The broker handles signals itself: aiohttp must not end the process.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_SECONDS,
            logger=AdminLog(self._metrics.connections),
        )
        await self._runner.setup()
        assert self._runner.server is not None
        self._acceptor = Acceptor(
            "admin",
            bound,
            self._runner.server,
            open_max=CONNECTIONS_MAX,
            tls=tls,
            on_handshake_failed=on_handshake_failed,
        )
        self._acceptor.start()

    async def stop(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _health(self, _request: web.Request) -> web.Response:
        results = {name: check() for name, check in self._checks.items()}
        healthy = all(result.ok for result in results.values())
        body = {
            "status": "ok" if healthy else "failing",
            **self._identity(),
            "checks": {
                name: {"ok": result.ok, "detail": result.detail} for name, result in results.items()
            },
        }
        return web.json_response(body, status=200 if healthy else 503)

    async def _probe(self, names: Sequence[str], _request: web.Request) -> web.Response:
        results = {name: self._checks[name]() for name in names if name in self._checks}
        causes = [f"{name}: {each.detail}" for name, each in results.items() if not each.ok]
        text = "; ".join(causes) if causes else "ok"
        return web.Response(text=f"{text}\n", status=503 if causes else 200)

    async def _page(self, page: Page, request: web.Request) -> web.Response:
        refusal = None if self._door is None else await self._door.refusal(request)
        return refusal or await _answer(page, request)

    async def _private_page(self, page: Page, request: web.Request) -> web.Response:
        if self._door is None and not is_loopback(request.remote or ""):
            return web.json_response({"error": PRIVATE}, status=403)
        return await self._page(page, request)

    async def _action(self, page: Page, request: web.Request) -> web.Response:
        if request.content_type != ACTION_TYPE:
            error = f"an action needs the header Content-Type: {ACTION_TYPE}"
            return web.json_response({"error": error}, status=415)
        if self._door is None:
            if not is_loopback(request.remote or ""):
                return web.json_response({"error": PRIVATE_ACTION}, status=403)
            return await _answer(page, request)
        refusal = await self._door.refusal(request, acts=True)
        return refusal or await _answer(page, request)

    async def _exposition(self, request: web.Request) -> web.Response:
        refusal = None if self._door is None else await self._door.refusal(request)
        if refusal is not None:
            return refusal
        scrape = self._metrics.scrape()
        for _ in scrape.steps():
            await asyncio.sleep(0)
        body = await asyncio.to_thread(scrape.text)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _answer(page: Page, request: web.Request) -> web.Response:
    try:
        answer = page(request.query)
        found = await answer if inspect.isawaitable(answer) else answer
    except ValueError as error:
        return web.json_response({"error": str(error)}, status=400)
    return web.Response(text=found) if isinstance(found, str) else web.json_response(found)


def is_loopback(address: str) -> bool:
    """Whether the client is on this machine."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)
