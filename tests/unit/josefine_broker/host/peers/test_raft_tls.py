"""Mutual TLS of the raft listener: whoever has no certificate that counts is not heard, on either
side, and each cause is told once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
import uvloop

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.tls_files import TlsError
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.frames import Frame, Hello, Kind, Session
from josefine_broker.host.net.server import bind
from josefine_broker.host.net.tls import Tls, TlsSettings
from josefine_broker.host.peers.raft_connection import Connection, PeerError, TransportStats
from josefine_broker.host.peers.raft_tls import PLAIN_THERE, RaftTls
from josefine_broker.host.peers.raft_transport import RaftTransport, Reply
from tests.support.certificates import Authority, Identity
from tests.support.waiting import wait_until_async

TIMEOUT_S = 30.0


class World(NamedTuple):
    """Two brokers of one authority, and somebody else."""

    ours: Authority
    foreign: Authority
    one: Identity
    two: Identity
    stranger: Identity

    def tls(self, own: Identity, *names: str) -> RaftTls:
        return RaftTls(Tls(self.settings(own), {}), names)

    def settings(self, own: Identity) -> TlsSettings:
        return TlsSettings(
            section="raft_tls",
            is_own_peer=True,
            certificate=own.certificate,
            key=own.key,
            ca=self.ours.certificate,
            client_auth="required",
        )


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> World:
    directory = tmp_path_factory.mktemp("raft-tls")
    ours, foreign = Authority(directory / "ours"), Authority(directory / "foreign")
    return World(ours, foreign, ours.issue("one"), ours.issue("two"), foreign.issue("one"))


class End:
    """One broker's end; what it hears is kept."""

    def __init__(self, node_id: int, tls: RaftTls | None, host: str = "127.0.0.1") -> None:
        self.node_id = node_id
        self.host = host
        self.got: list[bytes] = []
        self.greeted: list[int] = []
        self.transport = RaftTransport(
            hello=lambda to: Hello(
                node_id=node_id, to=to, cluster_id="c", address=str(self.address)
            ),
            book=AddressBook(),
            rng=Random(node_id),
            take=self._hear,
            timeout_ms=10_000,
            queue_bytes_max=8_000_000,
            on_greeted=lambda peer, _: self.greeted.append(peer.node_id),
            tls=tls,
        )

    def _hear(self, _peer: Hello, frame: Frame, _reply: Reply) -> None:
        self.got.append(frame.body)

    async def __aenter__(self) -> End:
        bound = bind("raft", self.host, 0)
        self.address = HostPort(self.host, bound.port)
        await self.transport.start(bound)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.transport.stop()

    @property
    def failed(self) -> int:
        return self.transport.stats.handshakes_failed

    async def trouble(self, other: End) -> str:
        """Why `other` cannot be dialled."""
        with pytest.raises(PeerError) as caught:
            await self.transport.dial(other.address, other.node_id, lambda *_: None)
        return str(caught.value).removeprefix(f"{other.address}: ")


def within_limit(scenario: Coroutine[object, object, None]) -> None:
    uvloop.run(asyncio.wait_for(scenario, TIMEOUT_S))


async def say_hello(to: End, context: ssl.SSLContext | None) -> bytes:
    """A stranger that greets as a broker would; what it is answered."""
    hello = Hello(node_id=9, to=0, cluster_id="", address="").encode(Kind.HELLO)
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(*to.address, ssl=context)
        writer.write(hello)
        try:
            return await reader.read()
        finally:
            writer.transport.abort()
    return b""


def stranger_context(own: Identity | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


def test_brokers_with_certificates_of_their_authority_hear_each_other(authorities: World) -> None:
    async def scenario() -> None:
        names = ("CN=one", "CN=two")
        async with (
            End(1, authorities.tls(authorities.one, *names)) as one,
            End(2, authorities.tls(authorities.two, *names)) as two,
        ):
            one.transport.book.learn(2, two.address)
            sent = [bytes(100_000), b"small", bytes(3_000_000)]
            for body in sent:
                one.transport.send(2, Kind.RAFT, body)
            await wait_until_async(lambda: len(two.got) == 3, TIMEOUT_S, "the frames")

            assert two.got == sent
            assert (one.failed, two.failed) == (0, 0)

    within_limit(scenario())


@pytest.mark.parametrize("who", ["plaintext", "no certificate", "foreign", "another name"])
def test_nothing_of_a_stranger_is_read(
    authorities: World, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        context = {
            "plaintext": None,
            "no certificate": stranger_context(None),
            "foreign": stranger_context(authorities.stranger),
            "another name": stranger_context(authorities.two),
        }[who]
        async with End(1, authorities.tls(authorities.one, "CN=one")) as one:
            for _ in range(5):
                answer = await say_hello(one, context)
                assert b"josefine" not in answer
            await wait_until_async(lambda: one.failed == 5, TIMEOUT_S, "the count")

            assert one.greeted == []
            assert one.transport.stats.silent == 0

    with caplog.at_level(logging.WARNING):
        within_limit(scenario())
    said = [each for each in caplog.records if each.message == "raft TLS refused"]
    (line,) = said
    assert (
        vars(line)["reason"]
        == {
            "plaintext": "what came is no TLS (plaintext?)",
            "no certificate": "the client showed no certificate",
            "foreign": "certificate refused: unable to get local issuer certificate",
            "another name": "the certificate of CN=two is not one of raft_tls.allowed_names",
        }[who]
    )


def test_bytes_that_came_with_the_handshake_of_a_refused_peer_are_not_read() -> None:
    """A transport that is closing still hands on what it has decrypted."""
    own = Hello(node_id=1, to=0, cluster_id="c", address="")
    session = Session(own, dials=False)
    stats = TransportStats()
    connection = Connection(
        session, stats, 1_000, lambda *_: pytest.fail("heard"), refuse=lambda _: "no broker"
    )

    connection.connection_made(_Quiet())
    connection.data_received(replace(own, node_id=2).encode(Kind.HELLO))

    assert (session.peer, connection.failure, connection.is_open) == (None, "no broker", False)


class _Quiet(asyncio.Transport):
    """Of a connection to nobody."""

    def close(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


def test_dialling_broker_believes_no_other_authority_and_no_other_name(authorities: World) -> None:
    async def scenario() -> None:
        foreign = replace(
            authorities.settings(authorities.stranger), ca=authorities.foreign.certificate
        )
        async with (
            End(1, authorities.tls(authorities.one, "CN=one", "CN=three")) as one,
            End(2, authorities.tls(authorities.two)) as two,
            End(3, RaftTls(Tls(foreign, {}))) as pretender,
            End(4, authorities.tls(authorities.two), "127.0.0.2") as elsewhere,
        ):
            assert "CN=two is not one of raft_tls.allowed_names" in await one.trouble(two)
            assert "certificate refused: self-signed" in await one.trouble(pretender)
            assert "certificate refused: IP address mismatch" in await one.trouble(elsewhere)
            assert one.greeted == []
            assert one.failed == 3

            assert await two.trouble(one)  # one has not this name in its list either
            assert (one.greeted, two.greeted) == ([], [])

    within_limit(scenario())


def test_tls_on_one_side_only_is_said_on_both(
    authorities: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with End(1, authorities.tls(authorities.one)) as secure, End(2, None) as plain:
            assert await secure.trouble(plain) == PLAIN_THERE
            assert "raft_tls is set on one side only" in await plain.trouble(secure)
            await wait_until_async(lambda: plain.transport.stats.refused, TIMEOUT_S, "its word")
            assert secure.failed == 2

    with caplog.at_level(logging.WARNING):
        within_limit(scenario())
    (by_plain,) = [each for each in caplog.records if each.message == "raft peer not accepted"]
    assert "the peer speaks TLS" in vars(by_plain)["reason"]


def test_certificate_of_another_authority_stops_the_start(authorities: World) -> None:
    with pytest.raises(TlsError) as caught:
        authorities.tls(authorities.stranger)

    assert str(caught.value) == (
        f"raft_tls.certificate: {authorities.stranger.certificate} is refused by raft_tls.ca"
        f" {authorities.ours.certificate}, and so by the other brokers: unable to get local issuer"
        " certificate"
    )


def test_certificate_for_one_side_of_a_connection_stops_the_start(authorities: World) -> None:
    """Servers' certificates of many authorities are for servers alone: its dials would fail."""
    for usage in ("serverAuth", "clientAuth"):
        own = authorities.ours.issue(usage, usage=usage)
        with pytest.raises(TlsError, match=r"raft_tls\.certificate: .*purpose"):
            authorities.tls(own)
    assert authorities.tls(authorities.ours.issue("both", usage="serverAuth,clientAuth"))


def test_expired_certificate_is_told_and_a_missing_file_has_its_key(
    authorities: World, tmp_path: Path
) -> None:
    tls = authorities.tls(authorities.ours.issue("old", days=-3)).tls

    said = tls.expired((tls.contexts.expires_s + 1) * 1_000)
    assert said.startswith("raft_tls.certificate ")
    assert said.endswith("brokers refuse it")
    with pytest.raises(TlsError, match=r"^raft_tls\.key: .* no such file"):
        Tls(replace(authorities.settings(authorities.one), key=tmp_path / "none"), {})
