"""The poller of the brokers: it runs while the page is open, and sends changes to all viewers."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import aiohttp

from josefine_cli.dashboard.chain_picture import merged
from josefine_cli.dashboard.lag_history import LagHistory
from josefine_cli.dashboard.timeline import Timeline
from josefine_cli.dashboard.views import BLOCKS, Told, page_view, pause_s, topic_view, whole_lags

ASK_TIMEOUT_S = 3.0
RECENT = 6
"""Entries of the timeline that come with each view."""
FRESH_S = 10.0
"""A viewer who comes gets the last view only if it is younger."""
Json = dict[str, Any]


class Watcher:
    """The poller; one per process, on its event loop. Without viewers no broker is polled."""

    def __init__(
        self,
        admin_urls: Sequence[str],
        tls: ssl.SSLContext | None = None,
        headers: Callable[[str], dict[str, str]] = lambda _url: {},
    ) -> None:
        """`admin_urls` of some brokers; the others are learned from them. `tls` is for https,
        `headers` authenticate at such an address."""
        self._tls = tls or True
        self._headers = headers
        self._refused = ""
        self._urls = list(admin_urls)
        self._lookers: set[asyncio.Queue[str]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._text = ""
        self._polled_s = 0.0
        self.timeline = Timeline()
        self.lags = LagHistory()

    async def start(self) -> None:
        """Start polling; call it once, on the loop."""
        timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
        self._session = aiohttp.ClientSession(timeout=timeout)

    async def stop(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._session is not None:
            await self._session.close()

    def enter(self) -> asyncio.Queue[str]:
        """Add a viewer; returns its queue of the newest view, as JSON text."""
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        self._lookers.add(queue)
        if self._text and time.monotonic() - self._polled_s < FRESH_S:
            queue.put_nowait(self._text)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_on())
        return queue

    def leave(self, queue: asyncio.Queue[str]) -> None:
        """Remove a viewer."""
        self._lookers.discard(queue)

    async def topic(self, name: str) -> Json:
        """One topic's partitions."""
        clusters = await self._all("/cluster")
        details = await self._all(f"/cluster/local?topic={quote(name, safe='')}")
        return topic_view(name, clusters, details)

    async def _look_on(self) -> None:
        # The other brokers' addresses come from the first one: a broker that is learned during the
        # first view would begin in the chart as a rise of the rate.
        await self._all("/cluster")
        while self._lookers:
            began_s = time.process_time()
            # Together: a broker that stalls costs one timeout, not three.
            clusters, locals_, chains, logs = await asyncio.gather(
                self._all("/cluster"),
                self._all("/cluster/local"),
                self._all(f"/cluster/chain?last={BLOCKS}"),
                self._all("/logs"),
            )
            told = Told(clusters=clusters, locals=locals_, chains=chains)
            view = page_view(told)
            view["recent"] = self._remember(told, logs)
            if "error" in view and self._refused:
                view = {"error": self._refused}
            text = json.dumps(view, separators=(",", ":"))
            # Also if nothing has changed: the page shows how old its picture is.
            self._text, self._polled_s = text, time.monotonic()
            for queue in self._lookers:
                if queue.full():  # a slow viewer misses outdated views
                    queue.get_nowait()
                queue.put_nowait(text)
            await asyncio.sleep(pause_s(time.process_time() - began_s))

    def _remember(self, told: Told, logs: dict[int, Json]) -> list[Json]:
        """Add a poll to the timeline and the lags; returns the newest entries."""
        now_ms = time.time_ns() // 1_000_000
        known = {each["id"] for view in told.clusters.values() for each in view["brokers"]}
        self.timeline.see_chain(merged((c["blocks"] for c in told.chains.values()), BLOCKS), now_ms)
        self.timeline.see_brokers(known, told.clusters, now_ms)
        self.timeline.see_repairs(logs, now_ms)
        for group, lag in whole_lags(told):
            self.lags.add(group, now_ms, lag)
        return self.timeline.newest(RECENT)

    async def _all(self, path: str) -> dict[int, Json]:
        """Broker id → its answer, for all that respond."""
        answers = await asyncio.gather(*(self._ask(url, path) for url in tuple(self._urls)))
        found = {answer["broker_id"]: answer for answer in answers if answer is not None}
        for answer in found.values():
            for broker in answer.get("brokers", ()):
                if broker["admin"] and broker["admin"] not in self._urls:
                    self._urls.append(broker["admin"])
        return found

    async def _ask(self, url: str, path: str) -> Json | None:
        assert self._session is not None
        try:
            headers = self._headers(url)
            async with self._session.get(url + path, ssl=self._tls, headers=headers) as response:
                answer: Json = await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None
        if response.status == 200:
            return answer
        said = answer.get("error") if isinstance(answer, dict) else None
        self._refused = f"{url} answers {response.status}: {said or response.reason}"
        return None
