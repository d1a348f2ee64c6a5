"""The plain produce request of a client that is alone is served as it arrives, past the turn. One
of several clients, or of several requests, is served with the turn."""

from __future__ import annotations

import logging

import pytest

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.engine.replicas.committing import Together
from josefine_broker.host.net.produce_turn import ProduceTurn, Staging
from josefine_broker.records.plain_produce import Key, PlainRequest, compiled
from josefine_broker.wire.apis import PRODUCE
from josefine_broker.wire.codec import decode_response
from tests.unit.josefine_broker.host.net.test_produce_turn import (
    VERSION,
    Log,
    groups,
    numbers,
    on_uvloop,
    plain,
    replicated,
)
from tests.unit.josefine_broker.host.serving import GROUPS, serving, until

pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The correlation ids of the requests that were staged."""
    found: list[int] = []
    stage = ProduceTurn.stage

    def noted(turn: ProduceTurn, frame: memoryview, connection: Staging) -> bool:
        is_staged = stage(turn, frame, connection)
        if is_staged:
            found.append(int.from_bytes(frame[4:8], "big"))
        return is_staged

    monkeypatch.setattr(ProduceTurn, "stage", noted)
    return found


def test_requests_of_a_client_that_is_alone_are_served_as_they_arrive(staged: list[int]) -> None:
    async def scenario() -> None:
        log, received = Log(), 0
        async with serving(log.handle, append=log.append) as server:
            client = await server.connect()
            for n in range(6):
                client.writer.write(plain(n))
                frame = await client.frame()
                received += 4 + len(frame)
                number, answer = decode_response(PRODUCE, VERSION, frame)
                assert (number, answer.topics[0].partitions[0].base_offset) == (n, n)
            assert staged == [0]
            assert log.events == ["append 1"] * 6
            assert sum(server.metrics.api("Produce").buckets) == 6
            assert server.metrics.connections.bytes_out == received

    on_uvloop(scenario)


def test_requests_of_clients_that_take_turns_are_staged(staged: list[int]) -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append) as server:
            clients = [await server.connect() for _ in range(2)]
            for n in range(6):
                client = clients[n % 2]
                client.writer.write(plain(n))
                assert await numbers(client, PRODUCE) == [n]
            assert staged == list(range(6))

    on_uvloop(scenario)


def test_requests_that_arrive_together_or_in_pieces_keep_their_order(staged: list[int]) -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=8) as server:
            client = await server.connect()
            client.writer.write(plain(1))
            assert await numbers(client, PRODUCE) == [1]
            client.writer.write(plain(2) + plain(3))
            assert await numbers(client, PRODUCE, PRODUCE) == [2, 3]
            assert staged == [1, 2, 3]
            client.writer.write(plain(4))  # the last turn had two requests
            assert await numbers(client, PRODUCE) == [4]
            (connection,) = server.server.clients
            received = connection.received
            client.writer.write(plain(5) + plain(6)[:20])
            await until(lambda: connection.received > received + 20, "a part has arrived")
            client.writer.write(plain(6)[20:] + groups(7, "groups"))
            assert await numbers(client, PRODUCE, PRODUCE, GROUPS) == [5, 6, 7]
            assert staged[:4] == [1, 2, 3, 4]
            assert 5 not in staged

    on_uvloop(scenario)


def test_an_answer_that_waits_for_replicas_keeps_its_place(staged: list[int]) -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client = await server.connect()
            client.writer.write(plain(1))
            assert await numbers(client, PRODUCE) == [1]
            client.writer.write(plain(2, index=1))
            await until(lambda: log.commits, "it waits")
            client.writer.write(plain(3))
            await until(lambda: log.end_offset == 3, "the next one is served meanwhile")
            assert staged == [1, 3]
            log.commits[0].complete(Together(2))
            assert await numbers(client, PRODUCE, PRODUCE) == [2, 3]
            assert sum(server.metrics.api("Produce").buckets) == 3

    on_uvloop(scenario)


def test_an_answer_that_waits_alone_is_sent_from_within_the_event() -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client, stats = await server.connect(), server.metrics.connections

            async def waits(count: int) -> None:
                await until(lambda: len(log.commits) == count, "it waits")

            for n in range(3):
                client.writer.write(plain(n, index=1))
                await waits(n + 1)
                before = stats.bytes_out
                log.commits[n].complete(Together(n + 1))
                assert stats.bytes_out > before
                assert await numbers(client, PRODUCE) == [n]
            assert sum(server.metrics.api("Produce").buckets) == 3
            # Not if it is refused, or not the only one.
            client.writer.write(plain(3, index=1))
            await waits(4)
            before = stats.bytes_out
            late = KafkaError(ErrorCode.request_timed_out)
            log.commits[3].complete(Together(3, late))
            assert stats.bytes_out == before
            part = decode_response(PRODUCE, VERSION, await client.frame())[1].topics[0].partitions
            assert part[0].error_code == ErrorCode.request_timed_out.value
            client.writer.write(plain(4, index=1) + plain(5, index=1))
            await until(lambda: log.end_offset == 6, "both wait")
            before = stats.bytes_out
            log.commits[4].complete(Together(6))
            assert stats.bytes_out == before
            assert await numbers(client, PRODUCE, PRODUCE) == [4, 5]

    on_uvloop(scenario)


def test_a_request_that_is_not_appended_is_served_by_the_general_path(staged: list[int]) -> None:
    async def scenario() -> None:
        log = Log(takes=lambda index: index != 3)
        async with serving(log.handle, append=log.append) as server:
            client = await server.connect()
            for number, frame in enumerate(
                (plain(0), plain(1, index=3), groups(2, "groups"), plain(3), plain(4))
            ):
                client.writer.write(frame)
                key = GROUPS if number == 2 else PRODUCE
                assert await numbers(client, key) == [number]
            assert log.events == ["append 1", "one 1", "groups", "append 1", "append 1"]
            assert staged[:2] == [0, 1]
            assert 4 not in staged

    on_uvloop(scenario)


@pytest.mark.parametrize("error", [Fatal("broken"), RuntimeError("boom")])
def test_an_error_closes_the_connection_without_an_answer(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        log = Log()

        def append(key: Key, requests: list[PlainRequest]) -> list[bytes] | None:
            if key[1] == 1:
                raise error
            return log.append(key, requests)

        async with serving(log.handle, append=append) as server:
            client, other = await server.connect(), await server.connect()
            client.writer.write(plain(1))
            assert await numbers(client, PRODUCE) == [1]
            with caplog.at_level(logging.CRITICAL):
                client.writer.write(plain(2, index=1))
                assert await client.closed()
            is_fatal = isinstance(error, Fatal)
            assert server.fatal == ([error] if is_fatal else [])
            assert server.metrics.connections.handler_failures == (0 if is_fatal else 1)
            other.writer.write(plain(3))
            assert await numbers(other, PRODUCE) == [3]

    on_uvloop(scenario)


def test_a_stopping_server_serves_no_more_of_them(staged: list[int]) -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append) as server:
            client = await server.connect()
            client.writer.write(plain(1))
            assert await numbers(client, PRODUCE) == [1]
            (connection,) = server.server.clients
            connection.drain()
            frame = plain(2)  # received just before the reading ended
            connection.get_buffer(-1)[: len(frame)] = frame
            connection.buffer_updated(len(frame))
            assert log.end_offset == 1

    on_uvloop(scenario)


def test_a_connection_that_is_gone_is_forgotten() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append) as server:
            client = await server.connect()
            client.writer.write(plain(1))
            assert await numbers(client, PRODUCE) == [1]
            (connection,) = server.server.clients
            turn = connection._host.turn
            assert turn is not None
            assert turn.last is connection
            client.writer.close()
            await until(lambda: turn.last is None, "nothing holds the connection")

    on_uvloop(scenario)
