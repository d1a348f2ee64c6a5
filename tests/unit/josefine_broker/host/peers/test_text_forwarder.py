"""Lines for another broker's text listener: over TLS where that is how brokers speak there."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from josefine_broker.client.cluster import Address
from josefine_broker.host.clock import RealClock
from josefine_broker.host.net.tls import Tls, TlsSettings
from josefine_broker.host.peers.text_forwarder import TextForwarder
from tests.support.certificates import Authority
from tests.unit.josefine_broker.host.net.test_connection import on_uvloop

TIMEOUT_S = 20.0


def tls_of(directory: Path) -> Tls:
    authority = Authority(directory)
    own = authority.issue("broker")
    return Tls(
        TlsSettings(
            certificate=own.certificate,
            key=own.key,
            ca=authority.certificate,
            client_auth="required",
        ),
        {},
    )


def test_line_goes_over_mutual_tls_and_an_unbelieved_broker_does_not_answer(tmp_path: Path) -> None:
    ours, others = tls_of(tmp_path / "ours"), tls_of(tmp_path / "others")

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def said(serving: ssl.SSLContext, dialling: ssl.SSLContext | None) -> str | None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=serving)
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        clock = RealClock()
        forwarder = TextForwarder(lambda _: address, clock, lambda: dialling)
        reply: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        forwarder.say(2, "CRTP t", clock.monotonic_ms() + 5_000, reply.set_result)
        try:
            return await asyncio.wait_for(reply, TIMEOUT_S)
        finally:
            server.close()
            await forwarder.stop()

    async def scenario() -> None:
        assert await said(ours.contexts.serving, ours.contexts.dialling) == "CRTP t"
        assert await said(others.contexts.serving, ours.contexts.dialling) is None
        assert await said(ours.contexts.serving, None) is None

    on_uvloop(scenario)
