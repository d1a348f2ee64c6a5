"""`/health` is 200 only while every check passes; the body says which one does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import pytest

from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net import admin_http
from josefine_broker.host.net.admin_http import AdminServer, Check
from josefine_broker.host.net.server import bind
from tests.unit.host.test_connection import on_uvloop


def test_health_follows_its_checks_and_names_them() -> None:
    """Checklist row 93."""
    free = {"bytes": 10}

    def disk() -> Check:
        return Check(ok=free["bytes"] > 0, detail=f"{free['bytes']} bytes free")

    async def scenario() -> None:
        admin = AdminServer(Metrics(), {"disk": disk}, lambda: {"broker_id": 7})
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket)
        url = f"http://127.0.0.1:{bound.port}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}/health") as response:
                assert response.status == 200
                assert await response.json() == {
                    "status": "ok",
                    "broker_id": 7,
                    "checks": {"disk": {"ok": True, "detail": "10 bytes free"}},
                }
            free["bytes"] = 0
            async with session.get(f"{url}/health") as response:
                assert response.status == 503
                assert (await response.json())["checks"]["disk"]["ok"] is False
            async with session.get(f"{url}/metrics") as response:
                assert response.status == 200
                assert "josefine_connection_opened_total 0.0" in await response.text()
            async with session.post(f"{url}/health") as response:
                assert response.status == 405
        await admin.stop()
        await admin.stop()

    on_uvloop(scenario)


def test_probes_say_the_cause_in_words_and_know_when_a_restart_would_not_help() -> None:
    """Checklist row 93."""
    state = {"process": "", "cluster": "waiting for a majority of the voters", "disk": "full"}

    def check(name: str) -> Callable[[], Check]:
        return lambda: Check(ok=not state[name], detail=state[name])

    async def scenario() -> None:
        admin = AdminServer(Metrics(), {name: check(name) for name in state}, dict)
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket)

        async def probe(which: str) -> tuple[int, str]:
            url = f"http://127.0.0.1:{bound.port}/health/{which}"
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                return response.status, await response.text()

        assert await probe("live") == (200, "ok\n")
        assert await probe("ready") == (503, "cluster: waiting for a majority of the voters\n")
        state["cluster"] = ""
        assert await probe("ready") == (200, "ok\n")
        state["process"] = "stopped: broken invariant"
        assert await probe("live") == (503, "process: stopped: broken invariant\n")
        await admin.stop()

    on_uvloop(scenario)


def test_of_many_silent_connections_the_oldest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the process's descriptors with the data."""
    monkeypatch.setattr(admin_http, "CONNECTIONS_MAX", 2)

    async def scenario() -> None:
        admin = AdminServer(Metrics(), {}, dict)
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket)
        silent = [await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(3)]

        async with asyncio.timeout(20):
            assert await silent[0][0].read() == b""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{bound.port}/health") as response,
        ):
            assert response.status == 200
        for _, writer in silent:
            writer.close()
        await admin.stop()

    on_uvloop(scenario)
