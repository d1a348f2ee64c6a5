"""TLS of a listener: what is wrong with its files in a sentence, files that change, and clients
that do not shake hands."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from josefine_broker.base.security import SecretPlace
from josefine_broker.base.tls_files import TlsError, reason_of
from josefine_broker.host.net.acceptor import Acceptor
from josefine_broker.host.net.connection import Connection
from josefine_broker.host.net.tls import (
    JOIN_BYTES_MAX,
    PIECE_BYTES,
    Tls,
    TlsSettings,
    write_tls,
)
from tests.support.certificates import Authority, Identity
from tests.support.garbage import uncollected
from tests.support.waiting import wait_until_async
from tests.unit.josefine_broker.host.serving import serving

TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> Identity:
    return authority.issue("broker")


@pytest.fixture(scope="module")
def locked(authority: Authority) -> Identity:
    return authority.issue("locked", password="open sesame")


def settings_of(own: Identity) -> TlsSettings:
    return TlsSettings(certificate=own.certificate, key=own.key)


def refusal(settings: TlsSettings, env: dict[str, str] | None = None) -> str:
    with pytest.raises(TlsError) as caught:
        Tls(settings, env or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


Change = Callable[[TlsSettings, Path], TlsSettings]
WRONG: list[tuple[Change, str]] = [
    (lambda s, t: replace(s, certificate=t / "none"), "tls.certificate: {t}/none: no such file"),
    (lambda s, t: replace(s, certificate=t), "tls.certificate: {t}: is a directory"),
    (lambda s, t: replace(s, certificate=s.key), "holds no certificate in PEM"),  # type: ignore[arg-type]
    (lambda s, t: replace(s, key=t / "none"), "tls.key: {t}/none: no such file"),
    (lambda s, t: replace(s, key=s.certificate), "tls.key: {c} holds no private key in PEM"),
    (lambda s, t: replace(s, key=None), "holds no private key in PEM; name its file in tls.key"),
    (lambda s, t: replace(s, ca=t / "none"), "tls.ca: {t}/none: no such file"),
    (lambda s, t: replace(s, ca=s.key), "holds no certificate in PEM"),
]


@pytest.mark.parametrize(("change", "words"), WRONG, ids=range(len(WRONG)))
def test_wrong_file_is_one_sentence_with_key_and_file(
    own: Identity, tmp_path: Path, change: Change, words: str
) -> None:
    message = refusal(change(settings_of(own), tmp_path))

    assert words.format(t=tmp_path, c=own.certificate) in message


def test_key_of_another_certificate_is_told(own: Identity, authority: Authority) -> None:
    other = authority.issue("other")

    message = refusal(replace(settings_of(own), key=other.key))

    expected = f"tls.key: {other.key} is not the key of the certificate in {own.certificate}"
    assert message == expected


def test_encrypted_key_is_opened_by_its_password_and_not_asked_for(locked: Identity) -> None:
    settings = settings_of(locked)
    place = SecretPlace("env", "PASSWORD")
    secret = replace(settings, key_password=place)

    assert "is encrypted; set tls.key_password to the place of its password" in refusal(settings)
    assert refusal(secret, {"PASSWORD": "hunter2"}).startswith("tls.key_password: is not the")
    assert "hunter2" not in refusal(secret, {"PASSWORD": "hunter2"})
    assert refusal(secret) == "tls.key_password: env:PASSWORD: no such variable in the environment"
    assert Tls(secret, {"PASSWORD": "open sesame"}).contexts.expires_s > 0


def test_expired_certificate_is_told(authority: Authority) -> None:
    tls = Tls(settings_of(authority.issue("old", days=-3)), {})
    now_ms = (tls.contexts.expires_s + 1) * 1_000

    assert "expired on " in tls.expired(now_ms)
    assert tls.expired(now_ms - 2_000) == ""


def test_changed_files_are_read_again_and_those_that_do_not_fit_change_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    first, second = authority.issue("first", days=2), authority.issue("second", days=9)
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    tls = Tls(TlsSettings(certificate=certificate, key=key), {})
    before = tls.contexts

    tls.reload_changed()
    assert tls.contexts is before

    replaced(certificate, second.certificate)  # half of a change: the key is the first one's
    tls.reload_changed()
    assert (tls.contexts, tls.reload_failures) == (before, 1)

    tls.reload_changed()
    assert tls.reload_failures == 1

    replaced(key, second.key)
    tls.reload_changed()
    assert tls.contexts.expires_s > before.expires_s


def replaced(path: Path, by: Path) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(by.read_bytes())
    os.replace(new, path)


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


class Served:
    """An echo behind TLS; `failures` are the reasons of handshakes that came to nothing."""

    def __init__(
        self,
        settings: TlsSettings,
        authority: Authority,
        protocol: Callable[[], asyncio.BaseProtocol] = Echo,
    ) -> None:
        self.tls = Tls(settings, {})
        self.failures: list[str] = []
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self._authority = authority
        self._acceptor = Acceptor(
            "SSL",
            listening,
            protocol,
            tls=self.tls,
            on_handshake_failed=lambda _client, error: self.failures.append(reason_of(error)),
        )

    async def __aenter__(self) -> Served:
        self._acceptor.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._acceptor.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=self._authority.certificate)
        return await asyncio.open_connection("localhost", self.port, ssl=context)

    async def answers(self) -> bool:
        reader, writer = await self.connect()
        writer.write(b"served")
        answer = await reader.readexactly(6)
        writer.close()
        return answer == b"served"

    async def silent(self) -> socket.socket:
        return await asyncio.to_thread(socket.create_connection, ("127.0.0.1", self.port))


def test_silent_client_has_a_deadline_and_holds_nobody_up(
    own: Identity, authority: Authority
) -> None:
    async def scenario() -> None:
        settings = replace(settings_of(own), handshake_timeout_ms=300)
        async with Served(settings, authority) as served:
            silent = await served.silent()

            assert await served.answers()
            await wait_until_async(lambda: served.failures, TIMEOUT_S, "the deadline")

            assert await asyncio.to_thread(silent.recv, 1) == b""
            assert len(served.failures) == 1
            silent.close()

    uvloop.run(asyncio.wait_for(scenario(), TIMEOUT_S))


def test_oldest_handshake_gives_way_when_there_are_too_many(
    own: Identity, authority: Authority
) -> None:
    async def scenario() -> None:
        settings = replace(settings_of(own), handshakes_max=4, handshake_timeout_ms=60_000)
        async with Served(settings, authority) as served:
            crowd = [await served.silent() for _ in range(20)]

            assert await served.answers()
            await wait_until_async(lambda: len(served.failures) >= 16, TIMEOUT_S, "who gave way")

            assert await asyncio.to_thread(crowd[0].recv, 1) == b""
            for each in crowd:
                each.close()

    uvloop.run(asyncio.wait_for(scenario(), TIMEOUT_S))


class Watched(Connection):
    """One that may have weak references."""


def test_lost_connection_goes_without_the_collector(own: Identity, authority: Authority) -> None:
    """A cycle would hold 50 KB of buffers."""

    async def scenario() -> None:
        async with serving(lambda *_: None) as plain:
            host, made = plain.server._host, list[weakref.ref[Watched]]()

            def protocol() -> Watched:
                connection = Watched(host, "SSL", lambda each: True, lambda each: None)
                made.append(weakref.ref(connection))
                return connection

            async with Served(settings_of(own), authority, protocol) as served:
                with uncollected():
                    _, writer = await served.connect()
                    await wait_until_async(lambda: bool(made), 5, "connected")
                    writer.close()
                    await wait_until_async(lambda: made[0]() is None, 5, "freed")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\x00\x00\x00\x10\x00\x12\x00\x00aaaaaaaaaaaa", "what came is no TLS (plaintext?)"),
        (b"GET / HTTP/1.1\r\n\r\n", "what came is no TLS but HTTP"),
    ],
)
def test_what_is_no_tls_is_told_in_plain_words(
    own: Identity, authority: Authority, said: bytes, reason: str
) -> None:
    async def scenario() -> None:
        async with Served(settings_of(own), authority) as served:
            stranger = await served.silent()
            stranger.sendall(said)

            await wait_until_async(lambda: served.failures, TIMEOUT_S, "the refusal")

            assert served.failures == [reason]
            assert await served.answers()
            stranger.close()

    uvloop.run(asyncio.wait_for(scenario(), TIMEOUT_S))


def test_client_certificate_is_demanded_where_it_is_required(
    own: Identity, authority: Authority
) -> None:
    async def scenario() -> None:
        settings = replace(settings_of(own), ca=authority.certificate, client_auth="required")
        async with Served(settings, authority) as served:
            with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)):
                await served.answers()

            await wait_until_async(lambda: served.failures, TIMEOUT_S, "the refusal")
            assert served.failures == ["the client showed no certificate"]

    uvloop.run(asyncio.wait_for(scenario(), TIMEOUT_S))


class Sent(asyncio.WriteTransport):
    """What is given to a transport, as it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.writes.append(b"".join(list_of_data))


@pytest.mark.parametrize(
    ("sizes", "writes"),
    [
        ([4, 100, 7], 1),
        ([4, JOIN_BYTES_MAX, 7], 1),
        ([4, PIECE_BYTES - 4], 1),
        ([4, 3 * PIECE_BYTES + 5, 7], 6),
    ],
)
def test_large_answer_is_encrypted_in_pieces_and_a_small_one_as_a_whole(
    sizes: list[int], writes: int
) -> None:
    buffers = [os.urandom(size) for size in sizes]
    transport = Sent()

    write_tls(transport, [memoryview(each) for each in buffers], sum(sizes))

    assert b"".join(transport.writes) == b"".join(buffers)
    assert len(transport.writes) == writes
    assert max(map(len, transport.writes)) <= PIECE_BYTES
