"""Without file descriptors newcomers wait, nobody is hung up on, and it is said once."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from josefine_broker.host.net.acceptor import RETRY_SECONDS, Acceptor
from tests.support.waiting import wait_until_async


class Scarce(socket.socket):
    """A listening socket of a process that may have no descriptors left."""

    error = 0
    accepts = 0

    def accept(self) -> tuple[socket.socket, object]:
        Scarce.accepts += 1
        if Scarce.error:
            raise OSError(Scarce.error, "nothing left")
        return super().accept()


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self.transport, asyncio.Transport | uvloop.loop.UVStream)  # type: ignore[attr-defined]
        self.transport.write(data)


def listening() -> Scarce:
    Scarce.error = Scarce.accepts = 0
    scarce = Scarce(socket.AF_INET, socket.SOCK_STREAM)
    scarce.bind(("127.0.0.1", 0))
    return scarce


async def asks(port: int) -> bytes:
    """A client that asks, and gets its answer in the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"served")
    answer = await reader.readexactly(6)
    writer.close()
    return answer


def both_loops(scenario: Callable[[], Coroutine[object, object, None]]) -> None:
    uvloop.run(scenario())
    asyncio.run(scenario())


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_newcomers_wait_for_a_descriptor_and_it_is_said_once(
    error: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        caplog.clear()
        scarce = listening()
        acceptor = Acceptor("PLAINTEXT", scarce, Echo)
        acceptor.start()
        loop = asyncio.get_running_loop()
        Scarce.error, began_s = error, loop.time()
        client = asyncio.ensure_future(asks(scarce.getsockname()[1]))
        await wait_until_async(lambda: Scarce.accepts >= 4, 20, "some attempts")
        assert acceptor.pauses == 1
        assert Scarce.accepts <= 2 + (loop.time() - began_s) / RETRY_SECONDS
        assert not client.done()

        Scarce.error = 0
        assert await client == b"served"
        assert await asks(scarce.getsockname()[1]) == b"served"
        acceptor.close()

        said = [each.getMessage() for each in caplog.records if each.name.startswith("josefine")]
        assert said == ["no connection accepted for now", "connections accepted again"]

    with caplog.at_level(logging.INFO):
        both_loops(scenario)


def test_a_client_that_gave_up_meanwhile_leaves_the_listener_working() -> None:
    async def scenario() -> None:
        scarce = listening()
        acceptor = Acceptor("PLAINTEXT", scarce, Echo)
        acceptor.start()
        Scarce.error = errno.EMFILE
        _, writer = await asyncio.open_connection(*scarce.getsockname())
        await wait_until_async(lambda: acceptor.pauses == 1, 20, "the pause")
        Scarce.error = errno.ECONNABORTED
        before = Scarce.accepts
        await wait_until_async(lambda: Scarce.accepts > before, 20, "another attempt")
        Scarce.error = 0
        writer.close()

        assert await asks(scarce.getsockname()[1]) == b"served"
        acceptor.close()

    both_loops(scenario)


def test_the_oldest_connection_gives_way_where_there_is_a_limit() -> None:
    async def scenario() -> None:
        scarce = listening()
        acceptor = Acceptor("admin", scarce, Echo, open_max=3)
        acceptor.start()
        address = scarce.getsockname()
        silent = []
        for _ in range(4):
            silent.append(await asyncio.open_connection(*address))
            assert await asks(address[1]) == b"served"

        assert await silent[0][0].read() == b""
        silent[3][1].write(b"x")
        assert await silent[3][0].readexactly(1) == b"x"
        for _, writer in silent:
            writer.close()
        acceptor.close()

    both_loops(scenario)
