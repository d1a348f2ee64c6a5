"""Quotas at a listener: who did too much is told, and not read meanwhile; others are."""

from __future__ import annotations

import asyncio
from typing import Any

from josefine_broker.base.quotas import CONSUMER, PRODUCER, QuotaEntity, Quotas
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.host.net.throttling import Throttle
from josefine_broker.wire.apis import FETCH, PRODUCE
from josefine_broker.wire.codec import RequestHeader, decode_response, encode_request
from josefine_broker.wire.fetch import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from josefine_broker.wire.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.unit.josefine_broker.api.world import fetch_request
from tests.unit.josefine_broker.host.net.test_connection import on_uvloop
from tests.unit.josefine_broker.host.serving import Client, serving, until

RATE = 10_000
QUOTAS: Quotas = {QuotaEntity(None, "greedy"): {PRODUCER: RATE, CONSUMER: RATE}}
VERSION = 9


class Producing:
    """Takes everything."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def __call__(self, header: RequestHeader, peer: Peer, body: Any) -> Any:
        self.begun.append(header.client_id or "")
        return None if body.acks == 0 else ProduceResponse(())


def send(client: Client, number: int, size: int, client_id: str = "greedy", acks: int = 1) -> None:
    """A request of that many bytes, nearly."""
    records = (ProducePartition(0, memoryview(bytes(size))),)
    request = ProduceRequest(None, acks, 1_000, (ProduceTopic("t", None, records),))
    client.writer.writelines(encode_request(PRODUCE, VERSION, number, client_id, request))


async def told(client: Client) -> tuple[int, int]:
    """Of the next answer correlation id and throttle time."""
    number, answer = decode_response(PRODUCE, VERSION, await client.frame())
    return number, answer.throttle_ms


def since_ms(began_s: float) -> int:
    """Whole, for uvloop's clock is, and the difference of two of its times is not."""
    return round((asyncio.get_running_loop().time() - began_s) * 1_000)


def test_client_above_its_quota_is_told_so_and_not_heard_for_as_long() -> None:
    async def scenario() -> None:
        handler = Producing()
        async with serving(handler, key=PRODUCE, quotas=QUOTAS) as server:
            client, other = await server.connect(), await server.connect()
            began = asyncio.get_running_loop().time()
            send(client, 0, 3 * RATE)
            send(client, 1, 10)
            number, throttle_ms = await told(client)
            assert (number, 2_000 <= throttle_ms <= 2_050) == (0, True)
            send(other, 7, 5 * RATE, "modest")
            assert await told(other) == (7, 0)
            assert handler.begun == ["greedy", "modest"]  # the second is read, and not begun
            assert (await told(client))[0] == 1
            assert since_ms(began) >= throttle_ms
            stats = server.metrics.throttles[PRODUCER]
            assert stats.answers >= 1
            assert stats.throttled_ms >= throttle_ms
            assert server.metrics.throttles[CONSUMER].answers == 0

    on_uvloop(scenario)


def test_producer_that_wants_no_answer_is_not_heard_either() -> None:
    async def scenario() -> None:
        handler = Producing()
        async with serving(handler, key=PRODUCE, quotas=QUOTAS) as server:
            client = await server.connect()
            began = asyncio.get_running_loop().time()
            send(client, 1, RATE + RATE // 4, acks=0)
            send(client, 2, 10, acks=0)
            await until(lambda: len(handler.begun) == 2, "both begun")
            assert since_ms(began) >= 250

    on_uvloop(scenario)


def test_broker_that_stops_does_not_wait_for_those_that_have_to() -> None:
    async def scenario() -> None:
        async with serving(Producing(), key=PRODUCE, quotas=QUOTAS) as server:
            client = await server.connect()
            send(client, 1, 20 * RATE)
            assert (await told(client))[1] > 10_000
            send(client, 2, 10)
            assert await server.server.stop(20) == 0
            assert await client.closed()

    on_uvloop(scenario)


def weigh(request: FetchRequest, client_id: str = "greedy") -> tuple[int, int, int]:
    """Of a fetch with 5,000 bytes in its answer: the most it may get, and what it and one more are
    told."""
    throttle = Throttle(lambda: QUOTAS, lambda: 0, Metrics().throttles)
    header = RequestHeader(FETCH, 12, 1, client_id, 0)
    part = FetchPartitionResponse(0, records=(bytes(3 * RATE // 4),))
    answer = FetchResponse(topics=(FetchTopicResponse("t", None, (part,)),))
    assert throttle.is_needed
    body, weight = throttle.begin(header, "User:alice", request, 100)
    if weight is None:
        return body.max_bytes, 0, 0
    told = []
    for _ in range(2):
        frame = memoryview(b"".join(throttle.encoded(header, answer, weight)))
        told.append(decode_response(FETCH, 12, frame[4:])[1].throttle_ms)
    return body.max_bytes, told[0], told[1]


def test_consumer_is_weighed_by_its_answers_and_gets_a_seconds_worth_at_once() -> None:
    request = fetch_request(max_bytes=1 << 20)
    bytes_max, first, second = weigh(request)

    assert (bytes_max, first) == (RATE, 0)
    assert 500 <= second <= 520
    assert weigh(fetch_request(max_bytes=7)) == (7, 0, second)
    assert weigh(request, "modest") == (1 << 20, 0, 0)


def test_brokers_among_each_other_are_not_weighed() -> None:
    assert weigh(fetch_request(max_bytes=1 << 20, replica_id=2)) == (1 << 20, 0, 0)
