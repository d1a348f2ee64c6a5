"""The connection to the archive reader: answers, and a reader that fails in each way."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.replicas.archive_reads import (
    ArchiveAnswer,
    ArchiveQuestion,
    TimeQuestion,
)
from josefine_broker.host.clock import RealClock
from josefine_broker.host.peers.archive_client import ArchiveClient

QUESTION = ArchiveQuestion("t", UUID(int=1), 0, 5, 9, 100)
TIME_QUESTION = TimeQuestion("t", UUID(int=1), 0, 7, 9)
WAIT_MS = 20_000
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answering(*lines: bytes) -> Serve:
    """A reader with these answers, then it ends the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in lines:
            assert json.loads(await reader.readline())["topic_id"] == str(UUID(int=1))
            writer.write(line)
            await writer.drain()
        writer.close()

    return serve


async def asked(serve: Serve, times: int = 1) -> list[ArchiveAnswer]:
    """What the client makes of it, asked one time after another."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    clock = RealClock()
    client = ArchiveClient(server.sockets[0].getsockname()[1], clock)
    found = []
    async with server:
        for _ in range(times):
            answered = asyncio.get_running_loop().create_future()
            client.ask(QUESTION, clock.monotonic_ms() + WAIT_MS, answered.set_result)
            found.append(await answered)
        await client.stop()
    return found


def answer(size: int = 3, error: str = "") -> bytes:
    return json.dumps({"size": size, "next": 8, "start": 2, "error": error}).encode() + b"\n"


def test_one_connection_serves_several_questions() -> None:
    found = asyncio.run(asked(answering(answer() + b"abc", answer(0)), times=2))

    assert found == [ArchiveAnswer(b"abc", 8, 2), ArchiveAnswer(b"", 8, 2)]


def test_connection_that_the_reader_closed_meanwhile_is_replaced() -> None:
    """It waits a minute for a question. Consumers would get an error after each pause."""
    found = asyncio.run(asked(answering(answer(0)), times=3))

    assert found == [ArchiveAnswer(b"", 8, 2)] * 3


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"no\n", b"[]\n", b"{}\n", answer(-1), answer(1 << 40), answer() + b"a"],
)
def test_what_is_no_answer_is_an_error_with_the_remedy(line: bytes) -> None:
    (found,) = asyncio.run(asked(answering(line)))

    assert (found.data, found.next_offset) == (b"", -1)
    assert "start `josefine archive serve`" in found.error


def test_error_of_the_reader_is_passed_on() -> None:
    (found,) = asyncio.run(asked(answering(answer(0, "no such disk"))))

    assert found.error == "no such disk"


def test_reader_that_does_not_run_is_an_error() -> None:
    async def nobody() -> ArchiveAnswer:
        server = await asyncio.start_server(answering(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        clock = RealClock()
        client = ArchiveClient(port, clock)
        with pytest.raises(KafkaError, match="does not answer"):
            client.ask_time(TIME_QUESTION)
        answered = asyncio.get_running_loop().create_future()
        client.ask(QUESTION, clock.monotonic_ms() + WAIT_MS, answered.set_result)
        return await answered

    assert "does not answer" in asyncio.run(nobody()).error


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"offset": 3, "timestamp": 8, "error": ""}\n', (3, 8)),
        (b'{"offset": -1, "timestamp": -1, "error": ""}\n', None),
    ],
)
def test_times_are_asked_for_on_a_worker(line: bytes, expected: object) -> None:
    async def asked_time() -> object:
        server = await asyncio.start_server(answering(line), "127.0.0.1", 0)
        client = ArchiveClient(server.sockets[0].getsockname()[1], RealClock())
        async with server:
            return await asyncio.to_thread(client.ask_time, TIME_QUESTION)

    assert asyncio.run(asked_time()) == expected
