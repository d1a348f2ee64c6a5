"""Large requests of many connections share a bound of memory: who finds no room is not read until
there is some, and who is slow with what others wait for is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import uvloop

from josefine_broker.engine.limits.request_memory import GRACE_MS
from josefine_broker.wire import entities as e
from josefine_broker.wire.codec import encode_request
from tests.unit.josefine_broker.host.serving import (
    GROUPS,
    Client,
    Serving,
    groups_answer,
    serving,
    until,
)

TEXT = "x" * 30_000
BOUND = 1_000_000
REQUEST_BYTES = 600_000
"""Two of these are more than the bound."""


def on_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]


def large(number: int, answer: str) -> bytes:
    """A request of about REQUEST_BYTES that is answered by `answer`."""
    texts = (answer, *[TEXT] * (REQUEST_BYTES // len(TEXT)))
    body = e.list_groups.ListGroupsRequest(states_filter=texts)
    return b"".join(encode_request(GROUPS, 4, number, None, body))


async def begin(server: Serving, number: int, answer: str = "") -> tuple[Client, bytes]:
    """A connection that has sent the first bytes of a large request; and the rest of it."""
    client, sent = await server.connect(), large(number, answer)
    client.writer.write(sent[:1_000])
    return client, sent[1_000:]


def waiting(server: Serving, count: int) -> Callable[[], bool]:
    return lambda: server.server.memory.waiting == count


def stands_still(server: Serving) -> Callable[[], bool]:
    """Whether requests wait, and nothing has been read and sent for half a second."""
    seen = since = 0

    def is_still() -> bool:
        nonlocal seen, since
        stats, now_ms = server.metrics.connections, server.clock.monotonic_ms()
        moved = server.server.bytes_in + stats.bytes_out
        if moved != seen or not server.server.requests_queued:
            seen, since = moved, now_ms
        return now_ms - since > 500

    return is_still


def test_request_without_room_is_not_read_until_another_is_begun() -> None:
    async def scenario() -> None:
        async with serving(
            lambda _h, _p, body: groups_answer(body.states_filter[0]), request_bytes_max=BOUND
        ) as server:
            memory = server.server.memory
            first, rest = await begin(server, 1, "first")
            await until(lambda: memory.used > 0, "room for the first")
            clients = [await begin(server, 2, "second"), await begin(server, 3, "third")]
            for client, more in clients:
                client.writer.write(more)
            await until(waiting(server, 2), "the others wait")
            small = await server.connect()
            small.ask(4, "small")
            assert await small.answer() == (4, "small")
            assert REQUEST_BYTES <= memory.used <= BOUND
            bytes_in = server.server.bytes_in

            first.writer.write(rest)
            assert await first.answer() == (1, "first")
            answers = [await client.answer() for client, _ in clients]
            assert answers == [(2, "second"), (3, "third")]
            assert server.server.bytes_in > bytes_in + 2 * REQUEST_BYTES
            assert (memory.used, memory.waiting) == (0, 0)

    on_uvloop(scenario)


def test_connection_that_ends_gives_its_room_and_its_place_back() -> None:
    async def scenario() -> None:
        async with serving(
            lambda _h, _p, body: groups_answer(body.states_filter[0]), request_bytes_max=BOUND
        ) as server:
            holds, _ = await begin(server, 1)
            await until(lambda: server.server.memory.used > 0, "room for the first")
            queued, _ = await begin(server, 2)
            last, rest = await begin(server, 3, "last")
            await until(waiting(server, 2), "the others wait")

            queued.writer.close()  # which is seen when it is read again
            holds.writer.close()
            last.writer.write(rest)
            assert await last.answer() == (3, "last")

    on_uvloop(scenario)


def test_slow_sender_and_deaf_reader_are_ended_where_others_wait_for_their_room() -> None:
    async def scenario() -> None:
        async with serving(
            lambda _h, _p, body: groups_answer(body.states_filter[0]), request_bytes_max=BOUND
        ) as server:
            stats = server.metrics.connections
            now_ms = server.clock.monotonic_ms()
            slow, _ = await begin(server, 1)
            await until(lambda: server.server.memory.used > 0, "room for the slow one")
            server.server.close_idle(now_ms + 100 * GRACE_MS)  # nobody waits
            assert stats.closed.slow == 0

            other, rest = await begin(server, 2, "other")
            other.writer.write(rest)
            await until(waiting(server, 1), "the other waits")
            server.server.close_idle(now_ms + GRACE_MS // 2)
            assert stats.closed.slow == 0
            server.server.close_idle(server.clock.monotonic_ms() + 2 * GRACE_MS)
            assert await slow.closed()
            assert await other.answer() == (2, "other")
            assert stats.closed.slow == 1

    on_uvloop(scenario)


async def deaf_within_a_request(server: Serving) -> Client:
    """A client that reads no answers, and whose next request has room and is not whole. Whether the
    broker stops within a request, or between two, depends on how much the sockets hold."""
    for answer_bytes in range(0, 30_000, 3_000):
        deaf = await server.connect()
        for number in range(30):  # 36 MB of answers, more than sockets hold
            deaf.writer.write(large(number, "a" * answer_bytes))
        await until(stands_still(server), "nothing more fits into sockets")
        if server.server.memory.used:
            return deaf
        deaf.writer.transport.abort()
        await until(lambda: not server.server.clients, "the end of the connection")
    raise AssertionError("the broker never stopped within a request")


def test_deaf_reader_is_ended_where_others_wait_for_its_room() -> None:
    async def scenario() -> None:
        group = e.list_groups.ListedGroup(group_id=TEXT, protocol_type="")
        much = e.list_groups.ListGroupsResponse(groups=(group,) * 40)
        async with serving(lambda *_: much, request_bytes_max=BOUND) as server:
            deaf = await deaf_within_a_request(server)
            other, rest = await begin(server, 1, "other")
            other.writer.write(rest)
            await until(waiting(server, 1), "the other waits")
            server.server.close_idle(server.clock.monotonic_ms() + 2 * GRACE_MS)
            assert (await other.answer())[0] == 1
            assert server.metrics.connections.closed.slow == 1
            deaf.writer.transport.abort()

    on_uvloop(scenario)


def test_connection_that_waits_is_not_idle_and_keeps_no_room_behind_its_request() -> None:
    async def scenario() -> None:
        async with serving(
            lambda _h, _p, body: groups_answer(body.states_filter[0]),
            request_bytes_max=BOUND,
            idle_timeout_ms=1_000,
        ) as server:
            holds, _ = await begin(server, 1)
            await until(lambda: server.server.memory.used > 0, "room for the first")
            queued, rest = await begin(server, 2, "queued")
            queued.writer.write(rest)
            await until(waiting(server, 1), "the other waits")
            now_ms = server.clock.monotonic_ms()
            for after_ms in range(0, GRACE_MS, 500):
                server.server.close_idle(now_ms + after_ms)
            assert await holds.closed()  # it sends nothing
            assert await queued.answer() == (2, "queued")

    on_uvloop(scenario)
