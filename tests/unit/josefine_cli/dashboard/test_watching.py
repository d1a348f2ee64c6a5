"""The poller of the brokers: what its first view has, over two brokers' pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from josefine_cli.dashboard import watching
from josefine_cli.dashboard.watching import Watcher

COUNTS = {"size": 1, "bytes_in": 5, "bytes_out": 0, "records_in": 1}


@asynccontextmanager
async def admin_pages(answers: dict[str, Any]) -> AsyncIterator[str]:
    """An admin address that gives these answers, by path."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(answers[request.path])

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answers_of(id_: int) -> dict[str, Any]:
    """A broker's pages, without admin addresses."""
    broker = {
        "fenced": False, "shutting_down": False, "rack": None, "endpoints": {}, "admin": None,
    }  # fmt: skip
    counts = {"topics": 1, "offline": 0, "under_replicated": 0, "brokers": 2, "live": 2}
    cluster = {
        "broker_id": id_, "cluster_id": "c", "controller": 1, "partitions": [],
        "raft": {"commit": 7, "applied": 7, "term": 2, "role": "leader"}, "counts": counts,
        "brokers": [broker | {"id": each} for each in (1, 2)],
    }  # fmt: skip
    local = {
        "broker_id": id_, "monotonic_ms": 9, "topics": {"orders": COUNTS}, "groups": [],
        "groups_omitted": 0, "transactions": [], "transactions_omitted": 0,
    }  # fmt: skip
    return {
        "/cluster": cluster,
        "/cluster/local": local,
        "/cluster/chain": {"broker_id": id_, "blocks": []},
        "/logs": {"broker_id": id_, "damaged": []},
    }


def test_first_view_has_every_broker_though_one_address_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker whose address is learned later would begin in the chart as a rise of the rate."""
    # A busy machine may let this process wait for longer than the 3 s that an answer has.
    monkeypatch.setattr(watching, "ASK_TIMEOUT_S", 25.0)

    async def scenario() -> None:
        pages = {id_: answers_of(id_) for id_ in (1, 2)}
        async with admin_pages(pages[1]) as first, admin_pages(pages[2]) as second:
            for page in pages.values():
                for broker, url in zip(page["/cluster"]["brokers"], (first, second), strict=True):
                    broker["admin"] = url
            watcher = Watcher([first])
            await watcher.start()
            try:
                queue = watcher.enter()
                view = json.loads(await asyncio.wait_for(queue.get(), 30))
                assert sorted(view["traffic"]) == ["1", "2"]
                assert [each["answers"] for each in view["brokers"]] == [True, True]
            finally:
                await watcher.stop()

    asyncio.run(scenario())
