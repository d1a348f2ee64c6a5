"""`/health` is 200 only while every check passes; the body says which one does not."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from josefine_broker.engine.limits import login_backoff
from josefine_broker.engine.limits.login_backoff import FREE
from josefine_broker.engine.security.sasl import Users
from josefine_broker.engine.security.tokens import Holder, TokenError
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net import admin_http
from josefine_broker.host.net.admin_door import Door
from josefine_broker.host.net.admin_http import AdminServer, Check, is_loopback
from josefine_broker.host.net.server import bind
from josefine_broker.host.net.tls import Tls, TlsSettings
from tests.support.certificates import Authority
from tests.unit.josefine_broker.host.net.test_connection import on_uvloop


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


PRIVATE = {"/debug": lambda _query: "what it does\n"}


def own_address() -> str:
    """Of this machine, as others see it. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        try:
            unused.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no other address")
        return str(unused.getsockname()[0])


def test_private_page_is_for_this_machine_alone_where_nobody_is_asked() -> None:
    address = own_address()

    async def scenario() -> None:
        pages = {"/open": lambda _query: {"a": 1}}
        admin = AdminServer(Metrics(), {}, dict, pages, private=PRIVATE)
        bound = bind("admin", "0.0.0.0", 0)
        await admin.start(bound.socket)
        async with aiohttp.ClientSession() as session:

            async def got(host: str, path: str) -> tuple[int, str]:
                async with session.get(f"http://{host}:{bound.port}{path}") as response:
                    return response.status, await response.text()

            assert await got("127.0.0.1", "/debug") == (200, "what it does\n")
            status, said = await got(address, "/debug")
            assert (status, "on this machine only" in said) == (403, True)
            assert await got(address, "/open") == (200, '{"a": 1}')
        await admin.stop()

    on_uvloop(scenario)


def judge(token: str) -> Holder:
    if token == "bad":
        raise TokenError("?")
    return Holder(token, 1_000)


def test_private_page_is_for_whoever_may_look_where_names_are_asked_for() -> None:
    door = Door(
        users=lambda: Users({"root": "r", "alice": "a"}, b"s", 4096),
        may_look=lambda principal, _: principal == "User:root",
        failure_delay_ms=0,
        judge=judge,
    )

    async def scenario() -> None:
        admin = AdminServer(Metrics(), {}, dict, {}, door, PRIVATE)
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket)
        async with aiohttp.ClientSession() as session:

            async def status(*login: str, token: str = "") -> int:
                basic = b64encode(":".join(login).encode()).decode()
                said = f"Bearer {token}" if token else f"Basic {basic}" if login else ""
                headers = {"Authorization": said} if said else None
                url = f"http://127.0.0.1:{bound.port}/debug"
                async with session.get(url, headers=headers) as response:
                    return response.status

            by_token = [await status(token=each) for each in ("bad", "alice", "root")]
            assert by_token == [401, 403, 200]
            assert [await status(), await status("root", "guess")] == [401, 401]
            assert await status("alice", "a") == 403
            assert await status("root", "r") == 200
        await admin.stop()

    on_uvloop(scenario)


def test_what_is_no_http_is_one_line_without_what_was_sent_and_a_bug_has_its_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()

    def broken(_query: object) -> str:
        raise RuntimeError("ours")

    async def scenario() -> None:
        admin = AdminServer(metrics, {}, dict, {"/broken": broken})
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket)
        for sent in (
            b"\x00secret",
            b"GET / HTTP/1.1\r\nno header secret\r\n\r\n",
            b"POST secret\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", bound.port)
            writer.write(sent)
            assert b"400" in await asyncio.wait_for(reader.read(), 20)
            writer.close()
        url = f"http://127.0.0.1:{bound.port}/broken"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            assert response.status == 500
        await admin.stop()

    with caplog.at_level(logging.DEBUG):
        on_uvloop(scenario)

    assert "secret" not in caplog.text
    assert caplog.text.count("malformed admin request") == 1
    (of_ours,) = [record.exc_info for record in caplog.records if record.exc_info]
    assert isinstance(of_ours[1], RuntimeError)
    assert metrics.connections.closed.malformed == 3


def test_a_guesser_of_passwords_waits_is_counted_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(login_backoff, "WAIT_MS_MAX", 0)
    metrics = Metrics()
    door = Door(
        users=lambda: Users({"root": "r"}, b"s", 4096),
        may_look=lambda principal, _: principal == "User:root",
        failure_delay_ms=0,
        stats=metrics.connections,
    )

    statuses: list[int] = []

    async def scenario() -> None:
        admin = AdminServer(metrics, {}, dict, {}, door, PRIVATE)
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket)
        url = f"http://127.0.0.1:{bound.port}/debug"
        async with aiohttp.ClientSession() as session:
            for login in ["root:r", *["root:guess"] * (FREE + 2), "root:r"]:
                said = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
                async with session.get(url, headers=said) as response:
                    statuses.append(response.status)
        await admin.stop()

    with caplog.at_level(logging.WARNING):
        on_uvloop(scenario)
    assert statuses == [200, *[401] * FREE, 429, 429, 429]
    (line,) = [each for each in caplog.records if each.message == "admin login refused"]
    assert "guess" not in str(line.__dict__)
    counted = metrics.connections
    assert (counted.admin_refused, counted.authentication_delayed) == (FREE + 3, 3)


def served_over_tls(tmp_path: Path, **changes: Any) -> tuple[Tls, ssl.SSLContext, Authority]:
    """What a listener has, and what its clients believe."""
    authority = Authority(tmp_path / "ca")
    own = authority.issue("broker")
    settings = TlsSettings(certificate=own.certificate, key=own.key, **changes)
    context = ssl.create_default_context(cafile=authority.certificate)
    return Tls(settings, {}), context, authority


def test_certificate_names_who_looks_and_a_password_goes_before_it(tmp_path: Path) -> None:
    plain, context, authority = served_over_tls(tmp_path)
    asking = replace(plain.settings, ca=authority.certificate, client_auth="requested")
    tls = Tls(asking, {})
    alice = authority.issue("alice")
    door = Door(
        users=lambda: Users({"root": "r"}, b"s", 4096),
        may_look=lambda principal, _: principal in ("User:CN=alice", "User:root"),
        failure_delay_ms=0,
    )

    async def scenario() -> None:
        admin = AdminServer(Metrics(), {}, dict, {}, door, PRIVATE)
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket, tls)
        url = f"https://localhost:{bound.port}/debug"

        async def status(login: str = "") -> int:
            said = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
            async with (
                aiohttp.ClientSession() as session,
                session.get(url, ssl=context, headers=said if login else None) as response,
            ):
                return response.status

        assert [await status(), await status("root:r")] == [401, 200]
        context.load_cert_chain(alice.certificate, alice.key)
        assert [await status(), await status("root:guess")] == [200, 401]
        await admin.stop()

    on_uvloop(scenario)


def test_of_many_silent_tls_connections_the_oldest_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_http, "CONNECTIONS_MAX", 2)
    tls, context, _ = served_over_tls(tmp_path, handshake_timeout_ms=120_000)
    failed: list[OSError] = []

    async def scenario() -> None:
        admin = AdminServer(Metrics(), {}, dict)
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket, tls, lambda _client, error: failed.append(error))
        where = ("127.0.0.1", bound.port)
        begun = [await asyncio.open_connection(*where) for _ in range(3)]
        shaken = [await asyncio.open_connection(*where, ssl=context) for _ in range(3)]

        async with asyncio.timeout(20):
            assert await begun[0][0].read() == b""
            assert await shaken[0][0].read() == b""
        assert failed
        for _, writer in (*begun, *shaken):
            writer.close()
        await admin.stop()

    on_uvloop(scenario)


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("fe80::1%eth0", False),
        ("0.0.0.0", False), ("", False), ("localhost", False),
    ],
)  # fmt: skip
def test_which_addresses_are_of_this_machine(address: str, is_here: bool) -> None:
    assert is_loopback(address) is is_here


def test_action_needs_a_json_post_and_with_access_control_the_right_to_alter() -> None:
    done: list[str] = []
    may: dict[str, bool] = {}

    def act(query: Any) -> dict[str, Any]:
        done.append(query.get("topic", ""))
        return {"done": len(done)}

    door = Door(
        users=lambda: None,
        may_look=lambda principal, address: True,
        may_act=lambda principal, address: may.get(principal, False),
        failure_delay_ms=0,
    )

    async def ask(door: Door | None, content_type: str) -> int:
        admin = AdminServer(Metrics(), {}, dict, door=door, actions={"/act": act})
        bound = bind("admin", "127.0.0.1", 0)
        await admin.start(bound.socket)
        headers = {"Content-Type": content_type}
        url = f"http://127.0.0.1:{bound.port}/act?topic=orders"
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as response:
                assert response.status == 405
            async with session.post(url, data=b"{}", headers=headers) as response:
                status = response.status
        await admin.stop()
        return status

    async def scenario() -> None:
        assert await ask(None, "text/plain") == 415, "a foreign web page could send it"
        assert await ask(door, "application/json") == 401
        assert done == []
        assert await ask(None, "application/json") == 200
        may["User:ANONYMOUS"] = True
        assert await ask(door, "application/json") == 200
        assert done == ["orders", "orders"]

    on_uvloop(scenario)
