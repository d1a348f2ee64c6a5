"""Asks the brokers while somebody looks at the page, and tells all who look what has changed."""

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

from josefine_cli.dashboard.views import BLOCKS, Told, page_view, pause_s, topic_view

ASK_TIMEOUT_S = 3.0
Json = dict[str, Any]


class Watcher:
    """One per process; on its event loop. Nobody looks: no broker is asked."""

    def __init__(
        self,
        admin_urls: Sequence[str],
        tls: ssl.SSLContext | None = None,
        headers: Callable[[str], dict[str, str]] = lambda _url: {},
    ) -> None:
        """`admin_urls` of some brokers; the others' are learned from them. `tls` is for https,
        `headers` say at such an address who asks."""
        self._tls = tls or True
        self._headers = headers
        self._refused = ""
        self._urls = list(admin_urls)
        self._lookers: set[asyncio.Queue[str]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._text = ""

    async def start(self) -> None:
        """Once, on the loop."""
        timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
        self._session = aiohttp.ClientSession(timeout=timeout)

    async def stop(self) -> None:
        """Ends the asking."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._session is not None:
            await self._session.close()

    def enter(self) -> asyncio.Queue[str]:
        """Somebody looks: a queue of the newest view, as JSON text."""
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        self._lookers.add(queue)
        if self._text:
            queue.put_nowait(self._text)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_on())
        return queue

    def leave(self, queue: asyncio.Queue[str]) -> None:
        """No more."""
        self._lookers.discard(queue)

    async def topic(self, name: str) -> Json:
        """One topic's partitions."""
        clusters = await self._all("/cluster")
        details = await self._all(f"/cluster/local?topic={quote(name, safe='')}")
        return topic_view(name, clusters, details)

    async def _look_on(self) -> None:
        while self._lookers:
            began_s = time.monotonic()
            told = Told(
                clusters=await self._all("/cluster"),
                locals=await self._all("/cluster/local"),
                chains=await self._all(f"/cluster/chain?last={BLOCKS}"),
            )
            view = page_view(told)
            if "error" in view and self._refused:
                view = {"error": self._refused}
            text = json.dumps(view, separators=(",", ":"))
            took_s = time.monotonic() - began_s
            if text != self._text:
                self._text = text
                for queue in self._lookers:
                    if queue.full():  # a slow looker misses what is old already
                        queue.get_nowait()
                    queue.put_nowait(text)
            await asyncio.sleep(pause_s(took_s))

    async def _all(self, path: str) -> dict[int, Json]:
        """Of every broker that answers, by its id."""
        answers = await asyncio.gather(*(self._ask(url, path) for url in self._urls))
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
