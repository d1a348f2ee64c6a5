"""One connection's promises: order, bounds, back-pressure, and what ends it."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.engine.purgatory.purgatory import Hangup
from josefine_broker.host.net.connection_host import SEND_BUFFERS_MAX
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.wire.codec import RequestHeader, decode_response
from tests.unit.josefine_broker.host.serving import Held, Serving, groups_answer, serving, until


def on_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]


def echo(header: RequestHeader, peer: Peer, body: Any) -> Any:
    return groups_answer(body.states_filter[0])


class Holding:
    """A handler that parks requests named `hold…` and echoes the others."""

    def __init__(self) -> None:
        self.serving: Serving | None = None
        self.begun: list[str] = []

    def __call__(self, header: RequestHeader, peer: Peer, body: Any) -> Any:
        text = body.states_filter[0]
        self.begun.append(text)
        assert self.serving is not None
        if text.startswith("hold"):
            return self.serving.hold(text, key=text)
        return groups_answer(text)


def test_answers_leave_in_request_order_while_later_requests_are_worked_on() -> None:
    async def scenario() -> None:
        holding = Holding()
        async with serving(holding) as server:
            holding.serving = server
            client = await server.connect()
            client.ask(1, "hold a")
            client.ask(2, "b")
            client.ask(3, "hold c")
            await until(lambda: holding.begun == ["hold a", "b", "hold c"], "all begun")
            server.release("hold c")
            server.release("hold a")
            answers = [await client.answer() for _ in range(3)]
            assert answers == [(1, "hold a"), (2, "b"), (3, "hold c")]

    on_uvloop(scenario)


def test_no_more_than_the_bound_is_in_flight_and_the_rest_is_served_later() -> None:
    async def scenario() -> None:
        holding = Holding()
        async with serving(holding, in_flight_max=4) as server:
            holding.serving = server
            client, other = await server.connect(), await server.connect()
            for number in range(10):
                client.ask(number, f"hold {number}")
            await until(lambda: len(holding.begun) == 4, "four begun")
            other.ask(1, "other")
            assert await other.answer() == (1, "other")
            assert holding.begun[4:] == ["other"]
            for number in range(10):
                await until(lambda n=number: f"hold {n}" in holding.begun, "begun")  # type: ignore[misc]
                server.release(f"hold {number}")
                assert await client.answer() == (number, f"hold {number}")

    on_uvloop(scenario)


def test_a_handler_that_completes_its_own_connections_waiting_request_keeps_the_order() -> None:
    """Produce wakes a fetch that was parked before it on the same connection."""

    async def scenario() -> None:
        holding = Holding()

        def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
            answer = holding(header, peer, body)
            if body.states_filter[0] == "wake":
                assert holding.serving is not None
                holding.serving.release("hold")
            return answer

        async with serving(handle) as server:
            holding.serving = server
            client = await server.connect()
            client.ask(1, "hold")
            client.ask(2, "wake")
            client.ask(3, "after")
            assert [await client.answer() for _ in range(3)] == [
                (1, "hold"),
                (2, "wake"),
                (3, "after"),
            ]

    on_uvloop(scenario)


def test_hangup_closes_the_connection_behind_its_answer_and_those_before_it() -> None:
    async def scenario() -> None:
        holding = Holding()

        def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
            answer = holding(header, peer, body)
            return Hangup("elsewhere", answer) if body.states_filter[0] == "last" else answer

        async with serving(handle) as server:
            holding.serving = server
            client = await server.connect()
            client.ask(1, "hold")
            client.ask(2, "last")
            client.ask(3, "too late")
            await until(lambda: len(holding.begun) == 3, "all begun")
            server.release("hold")
            assert [await client.answer() for _ in range(2)] == [(1, "hold"), (2, "last")]
            assert await client.closed()

            other = await server.connect()
            other.ask(1, "last")
            assert await other.answer() == (1, "last")
            assert await other.closed()

    on_uvloop(scenario)


def test_hangup_without_an_answer_only_closes_the_connection() -> None:
    class Gone(Held):
        def expire(self, now_ms: int) -> None:
            self.complete(Hangup("gone"))

    async def scenario() -> None:
        def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
            if body.states_filter[0] == "now":
                return Hangup("gone")
            held = Gone(server.clock.monotonic_ms() + 20, "")
            server.parked.park(held)
            return held

        async with serving(handle) as server:
            for text in ("now", "later"):
                client = await server.connect()
                client.ask(1, text)
                assert await client.closed()

    on_uvloop(scenario)


def test_a_waiting_request_is_answered_at_its_deadline() -> None:
    async def scenario() -> None:
        async with serving(lambda *_: server.hold("late", wait_ms=30)) as server:
            client = await server.connect()
            client.ask(1)
            assert await client.answer() == (1, "late expired")

    on_uvloop(scenario)


def test_the_kernel_holds_no_more_of_an_answer_than_the_send_buffer() -> None:
    async def scenario() -> None:
        begun = []

        def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
            begun.append(header.correlation_id)
            return groups_answer("x" * 30_000)

        async with serving(handle, write_buffer_bytes=10_000, send_buffer_bytes=50_000) as server:
            slow, other = await server.connect(), await server.connect()
            for number in range(500):
                slow.ask(number)
            await until(lambda: begun, "some begun")
            for number in range(50):
                other.ask(number)
                await other.answer()
            # Up to so many answers to one read are sent together, before what waits is looked at.
            assert len(begun) - 50 < SEND_BUFFERS_MAX + 50  # several times that fit into a kernel's

    on_uvloop(scenario)


def test_a_client_that_does_not_read_is_not_served_further() -> None:
    """Checklist row 27: its answers stay bounded, and another client is served meanwhile."""

    async def scenario() -> None:
        begun = []

        def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
            begun.append(header.correlation_id)
            return groups_answer("x" * 30_000 if body.states_filter[0] == "much" else "little")

        async with serving(handle, write_buffer_bytes=100_000) as server:
            slow, other = await server.connect(), await server.connect()
            for number in range(2_000):  # 60 MB of answers, far more than sockets hold
                slow.ask(number, "much")
            await until(lambda: begun, "some begun")
            for number in range(50):
                other.ask(number)
                assert await other.answer() == (number, "little")
            assert len(begun) < 1_000
            for number in range(2_000):
                assert (await slow.answer())[0] == number

    on_uvloop(scenario)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\xff\xff\xff\xff", "malformed frame"),
        (struct.pack(">i", (1 << 20) + 1), "malformed frame"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "malformed frame"),
        (struct.pack(">i", 3) + b"abc", "malformed request"),
        (struct.pack(">ihhih", 10, 16, 4, 1, -1), "malformed request"),
        (struct.pack(">ihhih", 10, 16, 99, 1, -1), "version 99 is not served"),
        (struct.pack(">ihhih", 10, 9_999, 0, 1, -1), "API key 9999"),
    ],
)
def test_a_malformed_or_unserved_request_ends_its_connection_only_with_one_log_line(
    sent: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Checklist row 26."""

    async def scenario() -> None:
        async with serving(echo) as server:
            bad, good = await server.connect(), await server.connect()
            bad.writer.write(sent)
            assert await bad.closed()
            good.ask(1, "fine")
            assert await good.answer() == (1, "fine")

    with caplog.at_level(logging.INFO):
        on_uvloop(scenario)
    lines = [r for r in caplog.records if r.name.startswith("josefine_broker")]
    assert [r.getMessage() for r in lines] == ["connection closed"]
    assert reason in vars(lines[0])["reason"]


def test_answers_made_before_a_malformed_request_still_arrive() -> None:
    async def scenario() -> None:
        async with serving(echo) as server:
            client = await server.connect()
            client.ask(1, "good")
            client.writer.write(struct.pack(">i", 3) + b"abc")
            assert await client.answer() == (1, "good")
            assert await client.closed()

    on_uvloop(scenario)


def test_a_frame_byte_by_byte_is_a_frame() -> None:
    async def scenario() -> None:
        async with serving(echo) as server:
            client, whole = await server.connect(), await server.connect()
            whole.ask(7, "whole")
            assert await whole.answer() == (7, "whole")
            sent = struct.pack(">hhihBBBB", 16, 4, 7, -1, 0, 2, 2, ord("x")) + b"\0"
            for byte in struct.pack(">i", len(sent)) + sent:
                client.writer.write(bytes([byte]))
                await client.writer.drain()
            assert await client.answer() == (7, "x")

    on_uvloop(scenario)


def test_unsupported_api_versions_is_answered_35_with_a_v0_body() -> None:
    """Checklist row 17. KIP-511: the client cannot know our versions before it asked."""

    async def scenario() -> None:
        server = Serving({18: echo})
        from josefine_broker.host.net.server import bind

        bound = bind("TEST", "127.0.0.1", 0)
        await server.server.start([bound])
        server.port = bound.port
        client = await server.connect()
        client.writer.write(struct.pack(">ihhih", 10, 18, 99, 5, -1))
        correlation_id, entity = decode_response(18, 0, await client.frame())
        assert (correlation_id, entity.error_code) == (5, ErrorCode.unsupported_version)
        await server.server.stop(5)

    on_uvloop(scenario)


def test_an_unexpected_exception_is_answered_and_logged_once_with_its_context(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
        if body.states_filter[0] == "break":
            raise ZeroDivisionError
        if body.states_filter[0] == "refuse":
            raise KafkaError(ErrorCode.group_authorization_failed)
        return groups_answer("fine")

    async def scenario() -> None:
        async with serving(handle) as server:
            client = await server.connect()
            client.ask(1, "break")
            client.ask(2, "refuse")
            client.ask(3, "")
            assert [await client.answer() for _ in range(3)] == [
                (1, "unknown_server_error"),
                (2, "group_authorization_failed"),
                (3, "fine"),
            ]
            assert server.metrics.connections.handler_failures == 1
            assert server.metrics.api("ListGroups").errors == 2

    on_uvloop(scenario)
    (line,) = [r for r in caplog.records if r.name.startswith("josefine_broker")]
    assert line.getMessage() == "request failed"
    assert vars(line)["api"] == "ListGroups"
    assert vars(line)["correlation_id"] == 1
    assert line.exc_info is not None


def test_a_broken_invariant_reaches_the_node_and_is_not_answered() -> None:
    def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
        raise Fatal("state is wrong")

    async def scenario() -> None:
        async with serving(handle) as server:
            client = await server.connect()
            client.ask(1)
            assert await client.closed()
            assert [str(error) for error in server.fatal] == ["state is wrong"]

    on_uvloop(scenario)


def test_a_lost_connection_forgets_its_waiting_requests() -> None:
    async def scenario() -> None:
        async with serving(lambda *_: server.hold("never")) as server:
            client = await server.connect()
            client.ask(1)
            await until(lambda: len(server.parked) == 1, "parked")
            client.writer.close()
            await until(lambda: len(server.parked) == 0, "forgotten")
            assert server.server.connection_count == 0

    on_uvloop(scenario)


def test_request_served_after_an_answer_may_bring_news_for_what_was_just_answered() -> None:
    """A produce with acks=all: its answer makes room for the next request of its connection, and
    that one appends and moves the high watermark that both wait for."""

    async def scenario() -> None:
        served: list[Serving] = []

        def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
            served[0].release("watermark")  # what is appended is committed at once
            return served[0].hold(body.states_filter[0], key="watermark")

        async with serving(handle, in_flight_max=1) as server:
            served.append(server)
            client = await server.connect()
            for number in range(20):
                client.ask(number, f"batch {number}")
            for number in range(20):
                await until(lambda: len(server.parked) or server.fatal, "it waits")
                server.release("watermark")
                assert server.fatal == []
                assert await client.answer() == (number, f"batch {number}")

    on_uvloop(scenario)


def test_a_request_without_an_answer_owed_gets_none() -> None:
    def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
        text = body.states_filter[0]
        if text == "silent":
            return None
        if text == "later silent":
            held = Held(0, "")
            held.complete(None)
            return held
        return groups_answer("fine")

    async def scenario() -> None:
        async with serving(handle) as server:
            client = await server.connect()
            client.ask(1, "silent")
            client.ask(2, "later silent")
            client.ask(3, "")
            assert await client.answer() == (3, "fine")

    on_uvloop(scenario)


def test_an_answer_that_cannot_be_encoded_ends_its_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
        text = body.states_filter[0]
        if text == "wrong":
            return "not an entity"
        if text == "later wrong":
            held = Held(0, "")
            held.complete("not an entity")
            return held
        return groups_answer("fine")

    async def scenario() -> None:
        async with serving(handle) as server:
            for text in ("wrong", "later wrong"):
                bad, good = await server.connect(), await server.connect()
                bad.ask(1, text)
                assert await bad.closed()
                good.ask(2, "")
                assert await good.answer() == (2, "fine")

    on_uvloop(scenario)
    ours = [record for record in caplog.records if record.name.startswith("josefine_broker")]
    assert [r.getMessage() for r in ours] == ["request not translatable", "answer not encodable"]
    assert all(record.exc_info for record in ours)
