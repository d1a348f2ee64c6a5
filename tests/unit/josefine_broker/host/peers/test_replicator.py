"""Followers over real sockets: one connection per leader, made again when it ends."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from josefine_broker.api.table import API_VERSIONS
from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.client.cluster import Address
from josefine_broker.client.io_asyncio_protocol import ProtocolConnection
from josefine_broker.compose.routes import produce_turn, routes, shortcuts
from josefine_broker.engine.metadata.image import Endpoint
from josefine_broker.engine.partition.replica_fetch import FetchLimits
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.following import hear
from josefine_broker.engine.replicas.following_next import NextBatches, next_batches
from josefine_broker.host.clock import RealClock
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.connection_host import ConnectionLimits, Host
from josefine_broker.host.net.dispatch import Dispatcher
from josefine_broker.host.net.server import Bound, Server
from josefine_broker.host.peers.replicator import Replicator
from josefine_broker.host.ticker import Ticker
from josefine_broker.records.plain_produce import compiled
from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import encode_request
from josefine_broker.wire.fetch import FetchRequest
from tests.support.ports import free_ports
from tests.support.waiting import wait_until_async
from tests.unit.josefine_broker.api.replicas import Replicas, result_of
from tests.unit.josefine_broker.api.world import LISTENER

TIMEOUT_S = 60


class Net(Replicas):
    """Brokers with real servers; every block is told to their replicators."""

    def __init__(self, brokers: int) -> None:
        self.ports = dict(zip(range(1, brokers + 1), free_ports(brokers), strict=True))
        self.sockets = {key: _listening(port) for key, port in self.ports.items()}
        self.replicators: dict[int, Replicator] = {}
        self.servers: dict[int, tuple[Server, Ticker]] = {}
        self.fatal: list[BaseException] = []
        super().__init__(brokers, clock=RealClock(), limits=FetchLimits(wait_ms=100))

    def endpoint(self, broker_id: int) -> Endpoint:
        return Endpoint(LISTENER, "127.0.0.1", self.ports[broker_id])

    def deliver(self) -> None:
        super().deliver()
        for replicator in self.replicators.values():
            replicator.image_changed()

    async def serve(self, broker_id: int) -> None:
        ctx, metrics = self.ctx[broker_id], Metrics()
        ticker = Ticker(self.clock, ctx.parked, (), self.fatal.append)
        tracing: Any = SimpleNamespace(dispatcher=Dispatcher)  # which traces nothing
        dispatcher = Dispatcher(
            routes(ctx, metrics),
            API_VERSIONS.unsupported_version,
            metrics.connections,
            **shortcuts(ctx, metrics, tracing),
        )
        host = Host(
            dispatcher=dispatcher,
            limits=ConnectionLimits(
                frame_bytes_max=1 << 20,
                in_flight_max=4,
                write_buffer_bytes=1 << 16,
                request_bytes_max=1 << 30,
            ),
            stats=metrics.connections,
            on_parked=ticker.arm,
            forget=ctx.parked.cancel,
            on_fatal=self.fatal.append,
            monotonic_ms=self.clock.monotonic_ms,
            turn=produce_turn(ctx, metrics, tracing, self.fatal.append, ticker.answering),
        )
        server = Server(host, connections_max=100, idle_timeout_ms=60_000)
        listening = self.sockets.pop(broker_id, None) or _listening(self.ports[broker_id])
        await server.start([Bound(LISTENER, "127.0.0.1", self.ports[broker_id], listening)])
        ticker.start()
        self.servers[broker_id] = (server, ticker)

    def replicate(self, broker_id: int) -> Replicator:
        ctx = self.ctx[broker_id]
        replicator = Replicator(
            ctx,
            partial(hear, ctx),
            self.clock,
            Random(1),
            FetchLimits(wait_ms=100),
            LISTENER,
            self.fatal.append,
            new_rounds=partial(next_batches, ctx),
        )
        self.replicators[broker_id] = replicator
        replicator.image_changed()
        return replicator

    async def take_down(self, broker_id: int) -> None:
        server, ticker = self.servers.pop(broker_id)
        ticker.stop()
        await server.stop(0)

    async def close(self) -> None:
        for replicator in self.replicators.values():
            await replicator.stop()
        for broker_id in list(self.servers):
            await self.take_down(broker_id)
        for each in self.sockets.values():
            each.close()


def _listening(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    return listening


@asynccontextmanager
async def net(brokers: int = 2) -> AsyncIterator[Net]:
    cluster = Net(brokers)
    try:
        for broker_id in range(1, brokers + 1):
            await cluster.serve(broker_id)
            cluster.replicate(broker_id)
        yield cluster
        assert cluster.fatal == []
    finally:
        await cluster.close()


def test_records_reach_the_followers_and_acks_all_is_answered() -> None:
    """Checklist rows 34, 35."""

    async def main() -> None:
        async with net(3) as cluster:
            cluster.create()
            waiting = cluster.produce(1, b"a", timeout_ms=60_000)
            assert isinstance(waiting, Parked)
            await wait_until_async(lambda: waiting.done, TIMEOUT_S, "acks=all")
            assert result_of(waiting).error_code == 0
            assert cluster.records(1) == cluster.records(2) == cluster.records(3)

    asyncio.run(main())


@pytest.mark.skipif(compiled is None, reason="not compiled for this platform")
def test_a_follower_asks_for_the_next_record_before_it_finishes_with_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what it asks for acknowledges this one: the high watermark follows."""
    order: list[str] = []
    again: list[bool] = []
    ask, finish = ProtocolConnection.ask, NextBatches.finish
    serve_again = Dispatcher.serve_again

    def asked(connection: ProtocolConnection, *args: Any) -> None:
        order.append("ask")
        ask(connection, *args)

    def finished(rounds: NextBatches) -> None:
        order.append("finish")
        finish(rounds)

    def served_again(dispatcher: Dispatcher, *args: Any) -> Any:
        waiting = serve_again(dispatcher, *args)
        again.append(waiting is not None)
        return waiting

    monkeypatch.setattr(Dispatcher, "serve_again", served_again)
    monkeypatch.setattr(ProtocolConnection, "ask", asked)
    monkeypatch.setattr(NextBatches, "finish", finished)

    async def main() -> None:
        async with net(2) as cluster:
            cluster.create(replicas=((1, 2),), min_insync_replicas="2")
            for _ in range(5):
                order.clear()
                waiting = cluster.produce(1, b"a", timeout_ms=60_000)
                await wait_until_async(lambda waiting=waiting: waiting.done, TIMEOUT_S, "acks=all")
            assert order[:2] == ["ask", "finish"]
            assert again[-1]  # the leader knows most of what it is asked
            assert cluster.records(1) == cluster.records(2)

    asyncio.run(main())


def test_all_partitions_of_a_leader_share_one_connection() -> None:
    async def main() -> None:
        async with net(2) as cluster:
            cluster.create(replicas=((1, 2),) * 30)
            waiting = [cluster.produce(1, index=index, timeout_ms=60_000) for index in range(30)]
            await wait_until_async(
                lambda: all(each.done for each in waiting), TIMEOUT_S, "acks=all on 30 partitions"
            )
            assert cluster.replicators[2].connection_count == 1
            assert cluster.replicators[1].connection_count == 0
            assert cluster.servers[1][0].connection_count == 1

    asyncio.run(main())


def test_leader_that_comes_back_is_followed_again() -> None:
    async def main() -> None:
        async with net(2) as cluster:
            cluster.create(replicas=((1, 2),))
            await wait_until_async(
                lambda: cluster.replicators[2].connection_count == 1, TIMEOUT_S, "a connection"
            )
            await cluster.take_down(1)
            await wait_until_async(
                lambda: cluster.replicators[2].connection_count == 0, TIMEOUT_S, "its end"
            )

            await cluster.serve(1)
            waiting = cluster.produce(1, b"a", timeout_ms=60_000)
            await wait_until_async(lambda: waiting.done, TIMEOUT_S, "acks=all after the return")

            assert result_of(waiting).error_code == 0

    asyncio.run(main())


def test_leader_that_is_away_is_told_once_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    tries = 0

    async def main() -> None:
        async with net(2) as cluster:
            cluster.create(replicas=((1, 2),))
            replicator = cluster.replicators[2]
            await wait_until_async(
                lambda: replicator.connection_count == 1, TIMEOUT_S, "a connection"
            )
            known = replicator.address_of

            def address_of(broker_id: int) -> Address | None:
                nonlocal tries
                tries += 1
                return known(broker_id)

            replicator.address_of = address_of  # type: ignore[method-assign]
            await cluster.take_down(1)
            await wait_until_async(lambda: tries > 3, TIMEOUT_S, "several tries")
            errors = cluster.ctx[2].hosted.counters.replication_errors
            assert errors >= 3  # no connection, each time
            assert cluster.ctx[2].hosted.fetchers.lost_leaders(0) == {1}
            await cluster.serve(1)
            waiting = cluster.produce(1, b"a", timeout_ms=60_000)
            await wait_until_async(lambda: waiting.done, TIMEOUT_S, "acks=all after the return")
            assert cluster.ctx[2].hosted.fetchers.lost_leaders(0) == frozenset()

    asyncio.run(main())
    words = ("follows", "lost a leader", "follows again")
    told = [each.getMessage() for each in caplog.records if each.getMessage() in words]
    assert told == list(words)


def test_leader_that_answers_nothing_is_dialled_again() -> None:
    async def main() -> None:
        async with net(2) as cluster:
            cluster.replicators[2].answer_timeout_ms = 200
            await cluster.take_down(1)
            accepted: list[asyncio.StreamWriter] = []

            async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                accepted.append(writer)
                if len(accepted) == 1:  # as a broker does, but for the answers
                    await reader.read()

            mute = await asyncio.start_server(swallow, "127.0.0.1", cluster.ports[1])
            cluster.create(replicas=((1, 2),))
            await wait_until_async(lambda: bool(accepted), TIMEOUT_S, "the first dialling")
            mute.close()
            for writer in accepted:
                writer.close()
            await cluster.serve(1)

            waiting = cluster.produce(1, b"a", timeout_ms=60_000)
            await wait_until_async(lambda: waiting.done, TIMEOUT_S, "acks=all")
            assert result_of(waiting).error_code == 0

    asyncio.run(main())


def test_a_request_whose_answer_is_damaged_is_lost_with_its_connection() -> None:
    """Otherwise the follower would wait for the answer's deadline, and leave the ISR meanwhile."""
    lost: list[KafkaError] = []

    class Asked:
        def answered(self, version: int, frame: memoryview) -> None:
            raise CorruptData("damaged")

        def lost(self, error: KafkaError) -> None:
            lost.append(error)

    async def main() -> None:
        async with net(1) as cluster:
            address = Address("127.0.0.1", cluster.ports[1])
            connection = await ProtocolConnection.open(address, "replica-2")
            request = FetchRequest(-1, 0, 1, 1 << 20, 0, 0, -1, ())

            def encode(version: int, correlation_id: int, client: str) -> list[Any]:
                return [*encode_request(FETCH, version, correlation_id, client, request)]

            connection.ask(FETCH, encode, Asked())
            await wait_until_async(lambda: not connection.is_usable, TIMEOUT_S, "the end")

    asyncio.run(main())
    assert len(lost) == 1


def test_partition_that_moves_is_followed_at_its_new_leader_without_a_wait() -> None:
    async def main() -> None:
        async with net(3) as cluster:
            cluster.create(replicas=((1, 2, 3),))
            first = cluster.produce(1, b"a", timeout_ms=60_000)
            await wait_until_async(lambda: first.done, TIMEOUT_S, "acks=all at the first leader")

            cluster.lead(2)
            second = cluster.produce(2, b"b", timeout_ms=60_000)
            await wait_until_async(lambda: second.done, TIMEOUT_S, "acks=all at the second")

            assert result_of(second).base_offset == 1
            assert cluster.replicators[3].lag() == {("orders", 0): 0}

    asyncio.run(main())
