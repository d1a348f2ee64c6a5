"""The set of connections: how many, how long idle, and how they end at shutdown."""

from __future__ import annotations

import asyncio

import pytest

from josefine_broker.engine.limits.connection_limits import LOOK_EVERY_MS
from josefine_broker.host.net.server import BindError, bind
from tests.unit.josefine_broker.host.net.test_connection import Holding, echo, on_uvloop
from tests.unit.josefine_broker.host.serving import Held, groups_answer, serving, until


def test_a_connection_past_the_limit_is_closed_and_counted() -> None:
    async def scenario() -> None:
        async with serving(echo, connections_max=2) as server:
            clients = [await server.connect() for _ in range(2)]
            await until(lambda: server.server.connection_count == 2, "two open")
            assert await (await server.connect()).closed()
            assert server.metrics.connections.refused_full == 1
            clients[0].ask(1, "fine")
            assert await clients[0].answer() == (1, "fine")
            clients[1].writer.close()
            await until(lambda: server.server.connection_count == 1, "one open")
            again = await server.connect()
            again.ask(1, "free again")
            assert await again.answer() == (1, "free again")

    on_uvloop(scenario)


def test_idle_connections_give_way_and_newcomers_that_find_none_are_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with serving(echo, connections_max=20) as server:
            idle = [await server.connect() for _ in range(20)]
            await until(lambda: server.server.connection_count == 20, "full")
            for _ in range(30):
                for each in server.server._room.occupants():  # they came just now, too
                    each.idle_since_ms = server.clock.monotonic_ms()
                assert await (await server.connect()).closed()
            assert server.metrics.connections.refused_full == 30

            for each in server.server._room.occupants():
                each.idle_since_ms -= 2_000
            look_ms = server.clock.monotonic_ms() + LOOK_EVERY_MS
            await until(lambda: server.clock.monotonic_ms() > look_ms, "the next look")
            newcomers = [await server.connect() for _ in range(10)]
            for number, each in enumerate(newcomers):
                each.ask(number, "let in")
                assert await each.answer() == (number, "let in")

            assert server.metrics.connections.gave_way == 10
            for each in idle[:10]:
                assert await each.closed()
            assert server.server.connection_count == 20

    on_uvloop(scenario)
    said = [each for each in caplog.records if each.getMessage() == "connection refused"]
    assert len(said) == 1
    assert said[0].__dict__["reason"] == "there are 20 connections, and none is idle"


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    async def scenario() -> None:
        holding = Holding()
        async with serving(holding, idle_timeout_ms=1_000) as server:
            holding.serving = server
            idle, waiting, half = [await server.connect() for _ in range(3)]
            waiting.ask(1, "hold")
            half.writer.write(b"\0\0")  # a frame that never comes
            await until(lambda: len(server.parked) == 1, "parked")
            await until(lambda: server.server.connection_count == 3, "three open")
            now_ms = server.clock.monotonic_ms()
            server.server.close_idle(now_ms)
            server.server.close_idle(now_ms + 2_000)
            server.server.close_idle(now_ms + 4_000)
            assert await idle.closed()
            assert await half.closed()
            assert server.metrics.connections.closed.idle == 2
            server.release("hold")
            assert await waiting.answer() == (1, "hold")

    on_uvloop(scenario)


def test_an_idle_connection_that_does_not_read_is_ended_too() -> None:
    """A graceful close would wait for its unread answers for ever."""

    async def scenario() -> None:
        async with serving(lambda *_: groups_answer("x" * 30_000), idle_timeout_ms=1_000) as server:
            deaf = await server.connect()
            for number in range(2_000):
                deaf.ask(number)
            stats = server.metrics.connections
            await until(lambda: stats.bytes_out > 1_000_000, "answers under way")
            now_ms = server.clock.monotonic_ms()

            def swept() -> bool:
                nonlocal now_ms
                now_ms += 2_000
                server.server.close_idle(now_ms)
                return server.server.connection_count == 0

            await until(swept, "the deaf connection ended")

    on_uvloop(scenario)


def test_stop_answers_what_is_in_flight_and_begins_nothing_new() -> None:
    """Checklist row 93."""

    async def scenario() -> None:
        holding = Holding()
        async with serving(holding, in_flight_max=1) as server:
            holding.serving = server
            client = await server.connect()
            client.ask(1, "hold 1")
            client.ask(2, "hold 2")  # received, and not begun: the bound is one
            await until(lambda: len(server.parked) == 1, "parked")
            stopping = asyncio.ensure_future(server.server.stop(5))
            await until(lambda: not server.server.is_listening, "no longer listening")
            server.release("hold 1")
            assert await client.answer() == (1, "hold 1")
            assert await client.closed()
            assert await stopping == 0
            assert holding.begun == ["hold 1"]

    on_uvloop(scenario)


def test_stop_ends_long_waits_at_once() -> None:
    """Of fetches, and of members that wait for each other."""

    class Long(Held):
        is_cut_short = True

    async def scenario() -> None:
        def handle(*_: object) -> Long:
            held = Long(server.clock.monotonic_ms() + 60_000, "long")
            server.parked.park(held)
            return held

        async with serving(handle) as server:
            client = await server.connect()
            client.ask(1)
            await until(lambda: len(server.parked) == 1, "parked")
            assert await server.server.stop(60) == 0
            assert await client.answer() == (1, "long expired")

    on_uvloop(scenario)


def test_stop_gives_up_at_its_deadline() -> None:
    async def scenario() -> None:
        async with serving(lambda *_: server.hold("never")) as server:
            client = await server.connect()
            client.ask(1)
            await until(lambda: len(server.parked) == 1, "parked")
            assert await server.server.stop(0.05) == 1
            assert await client.closed()

    on_uvloop(scenario)


def test_a_taken_port_is_one_sentence() -> None:
    async def scenario() -> None:
        async with serving(lambda *_: groups_answer("")) as server:
            with pytest.raises(BindError, match=r"cannot listen on 127\.0\.0\.1:.*already in use"):
                bind("A", "127.0.0.1", server.port)

    on_uvloop(scenario)


def test_an_unknown_host_is_one_sentence() -> None:
    with pytest.raises(BindError, match=r"cannot listen on no-such-host\.invalid:1 \(A\)"):
        bind("A", "no-such-host.invalid", 1)
