"""The admin listener of a table writer with plain sockets: strangers, silent and early leavers."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from josefine_broker.base.addresses import HostPort
from josefine_lake.report import admin_http
from josefine_lake.report.admin_http import as_json, as_text, served

ANY = HostPort("127.0.0.1", 0)
PAGES = {
    "/health": lambda: as_json(False, {"status": "failing"}),
    "/health/live": lambda: as_text(True, "ok"),
}


@pytest.fixture
def at() -> Iterator[HostPort]:
    with served(ANY, PAGES) as bound:
        yield bound


def get(at: HostPort, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{at}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_pages_answer_with_their_code(at: HostPort) -> None:
    assert get(at, "/health/live?x=1") == (200, "ok\n")
    assert get(at, "/health") == (503, '{\n "status": "failing"\n}\n')
    assert get(at, "/etc/passwd") == (404, "no such page; there are /health, /health/live\n")


def test_strangers_bytes_are_refused_and_nothing_is_printed(
    at: HostPort, capfd: pytest.CaptureFixture[str]
) -> None:
    kafka = b"\x00\x00\x00\x10\x00\x12\x00\x03" + b"\x00" * 32 + b"\r\n\r\n"
    for sent in (kafka, b"GET / HTTP/x\r\n\r\n"):
        with socket.create_connection(at, timeout=30) as client:
            client.sendall(sent)
            assert b"400" in client.recv(4096)
    with socket.create_connection(at, timeout=30) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\n\r\n")
    assert get(at, "/health/live")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_more_silent_clients_than_the_bound_are_closed_at_once(
    at: HostPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_http._Handler, "timeout", 300)
    silent = [socket.create_connection(at, timeout=30) for _ in range(admin_http.CONNECTIONS_MAX)]
    try:
        # A slot is taken once the listener has accepted; one more connection is closed.
        with socket.create_connection(at, timeout=30) as more:
            assert more.recv(1) == b""
    finally:
        for each in silent:
            each.close()


def test_a_silent_client_is_closed_after_a_while(
    at: HostPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_http._Handler, "timeout", 0.05)
    with socket.create_connection(at, timeout=30) as silent:
        assert silent.recv(1) == b""


def test_an_address_in_use_is_an_error_before_anything_is_served(at: HostPort) -> None:
    with pytest.raises(OSError, match="in use"), served(at, PAGES):
        pass


def test_ipv6_is_served_if_the_machine_has_it() -> None:
    try:
        with served(HostPort("::1", 0), PAGES) as bound:
            assert get(bound, "/health/live")[0] == 200
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
