"""Plain produce requests of one turn of the loop: appended together, answered in request order,
and never overtaken by another request of their connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any
from uuid import UUID

import pytest
import uvloop

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.replicas.committing import Together
from josefine_broker.engine.replicas.plain_batches import Stored, Wait
from josefine_broker.host.net.connection import Connection
from josefine_broker.host.net.connection_host import SEND_BUFFERS_MAX
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.host.net.produce_turn import REQUESTS_MAX
from josefine_broker.records.plain_produce import Key, PlainRequest, compiled
from josefine_broker.wire.apis import PRODUCE
from josefine_broker.wire.codec import RequestHeader, decode_response, encode_request
from josefine_broker.wire.entities import list_groups
from josefine_broker.wire.frames import FIRST_CHUNK_BYTES
from josefine_broker.wire.produce import (
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
)
from tests.unit.josefine_broker.host.serving import (
    GROUPS,
    Client,
    Held,
    Serving,
    groups_answer,
    serving,
    until,
)
from tests.unit.josefine_broker.plain_frames import batch_with, frame_of

VERSION = 9
pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


def on_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]


def plain(number: int, index: int = 0, version: int = VERSION) -> bytes:
    frame = frame_of(batch_with(b"v"), version=version, index=index, correlation_id=number)
    return len(frame).to_bytes(4, "big") + frame


def groups(number: int, text: str) -> bytes:
    body = list_groups.ListGroupsRequest(states_filter=(text,))
    return b"".join(encode_request(GROUPS, 4, number, None, body))


def stored(index: int, offset: int, topic_id: UUID | None = None) -> ProduceResponse:
    part = ProducePartitionResponse(index, 0, offset)
    name = "orders" if topic_id is None else None
    return ProduceResponse((ProduceTopicResponse(name, topic_id, (part,)),))


class Log:
    """What the server asked for, in order; offsets grow over all partitions."""

    def __init__(self, *, takes: Callable[[int], bool] = lambda _: True) -> None:
        """`takes`: whether requests of a partition index are appended together."""
        self.events: list[str] = []
        self.end_offset = 0
        self.takes = takes
        self.serving: Serving | None = None
        self.held: dict[int, Held] = {}

    def append(self, key: Key, requests: list[PlainRequest]) -> list[bytes] | None:
        assert compiled is not None
        if not self.takes(key[1]):
            return None
        self.events.append(f"append {len(requests)}")
        answers = compiled.answers(requests, self.end_offset, 0)
        self.end_offset += len(requests)
        return answers

    def handle(self, header: RequestHeader, peer: Peer, body: Any) -> Any:
        if header.api_key == GROUPS:
            text = body.states_filter[0]
            self.events.append(text)
        else:
            text = f"one {header.correlation_id}"
            self.events.append(text)
            (topic,) = body.topics
            if topic.partitions[0].index != 2:
                self.end_offset += 1
                return stored(topic.partitions[0].index, self.end_offset - 1, topic.topic_id)
        if not text.startswith(("hold", "one")):
            return groups_answer(text)
        assert self.serving is not None
        self.held[header.correlation_id] = self.serving.hold(text, key=text)
        return self.held[header.correlation_id]


async def numbers(client: Client, *keys: int) -> list[int]:
    """Correlation ids of the next answers, which are to these API keys."""
    versions = {PRODUCE: VERSION, GROUPS: 4}
    return [decode_response(key, versions[key], await client.frame())[0] for key in keys]


def test_requests_that_arrive_together_are_appended_together_and_answered_in_order() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=8) as server:
            client = await server.connect()
            client.writer.write(b"".join(plain(n) for n in range(5)))
            for n in range(5):
                number, answer = decode_response(PRODUCE, VERSION, await client.frame())
                part = answer.topics[0].partitions[0]
                assert (number, part.error_code, part.base_offset) == (n, 0, n)
            assert log.events == ["append 5"]
            assert sum(server.metrics.api("Produce").buckets) == 5

    on_uvloop(scenario)


def test_another_request_of_the_connection_is_served_after_the_staged_ones() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=8) as server:
            client = await server.connect()
            client.writer.write(
                groups(1, "first") + plain(2) + plain(3) + groups(4, "groups") + plain(5)
            )
            keys = (GROUPS, PRODUCE, PRODUCE, GROUPS, PRODUCE)
            assert await numbers(client, *keys) == [1, 2, 3, 4, 5]
            assert log.events == ["first", "append 2", "groups", "append 1"]

    on_uvloop(scenario)


def test_a_request_that_is_not_appended_together_is_served_in_its_place() -> None:
    async def scenario() -> None:
        log = Log(takes=lambda index: index == 0)
        async with serving(log.handle, append=log.append, in_flight_max=8) as server:
            log.serving = server
            client = await server.connect()
            client.writer.write(plain(1) + plain(2, index=1) + plain(3) + plain(4, index=1))
            assert await numbers(client, *[PRODUCE] * 4) == [1, 2, 3, 4]
            assert log.events == ["append 2", "one 2", "one 4"]

    on_uvloop(scenario)


def test_answers_wait_for_an_earlier_request_of_their_turn_that_waits() -> None:
    async def scenario() -> None:
        log = Log(takes=lambda index: index == 0)
        async with serving(log.handle, append=log.append, in_flight_max=8) as server:
            log.serving = server
            client = await server.connect()
            client.writer.write(plain(1) + plain(2, index=2) + plain(3) + plain(4, index=1))
            assert await numbers(client, PRODUCE) == [1]
            await until(lambda: "one 4" in log.events, "the last one is served")
            log.held[2].complete(stored(2, 100))
            assert await numbers(client, *[PRODUCE] * 3) == [2, 3, 4]

    on_uvloop(scenario)


def test_a_fallback_that_is_done_at_once_lets_no_later_request_overtake_its_turn() -> None:
    async def scenario() -> None:
        log = Log(takes=lambda _: False)

        def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
            answer = log.handle(header, peer, body)
            if isinstance(answer, Held):
                answer.complete(stored(2, 100))
            return answer

        async with serving(handle, append=log.append, in_flight_max=2) as server:
            log.serving = server
            client = await server.connect()
            client.writer.write(plain(1, index=2) + plain(2) + groups(3, "groups"))
            assert await numbers(client, PRODUCE, PRODUCE, GROUPS) == [1, 2, 3]
            assert log.events == ["one 1", "one 2", "groups"]

    on_uvloop(scenario)


def test_a_connection_that_names_a_topic_by_name_and_by_id_has_its_order_kept() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=8) as server:
            client, other = await server.connect(), await server.connect()
            other.writer.write(plain(9))
            client.writer.write(plain(1, version=13) + plain(2, version=12) + plain(3, version=13))
            for number, version in ((1, 13), (2, 12), (3, 13)):
                assert decode_response(PRODUCE, version, await client.frame())[0] == number
            assert await numbers(other, PRODUCE) == [9]
            in_order = [event for event in log.events if event.startswith("one")]
            assert in_order == ["one 1", "one 2", "one 3"]

    on_uvloop(scenario)


def test_connections_that_name_a_topic_in_different_ways_are_served_together() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=8) as server:
            client, other = await server.connect(), await server.connect()
            client.writer.write(plain(1, version=13) + plain(2, version=13))
            other.writer.write(plain(9) + plain(10))
            for number in (1, 2):
                assert decode_response(PRODUCE, 13, await client.frame())[0] == number
            assert await numbers(other, PRODUCE, PRODUCE) == [9, 10]
            assert log.events == ["append 2", "append 2"]

    on_uvloop(scenario)


def test_a_plain_request_waits_for_the_answer_of_an_earlier_other_request() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=8) as server:
            log.serving = server
            client = await server.connect()
            client.writer.write(groups(1, "hold") + plain(2) + plain(3))
            await until(lambda: "append 2" in log.events, "both are served together")
            server.release("hold")
            assert await numbers(client, GROUPS, PRODUCE, PRODUCE) == [1, 2, 3]

    on_uvloop(scenario)


class Commit(Parked):
    """A wait that a test ends."""

    __slots__ = ()

    def expire(self, now_ms: int) -> None:
        self.complete(Together(0, KafkaError(ErrorCode.request_timed_out)))


class Replicated(Log):
    """Acknowledges the requests of index 1 when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []

    def append(self, key: Key, requests: list[PlainRequest]) -> Stored | None:  # type: ignore[override]
        assert self.serving is not None
        start = self.end_offset
        answers = super().append(key, requests)
        if answers is None or key[1] != 1:
            return None if answers is None else Stored(answers)
        commit = Commit(self.serving.clock.monotonic_ms() + 60_000)
        self.serving.parked.park(commit)
        self.commits.append(commit)
        ends = {place: start + 1 + place for place in range(len(requests))}
        return Stored(answers, (Wait(commit, ends),))


@asynccontextmanager
async def replicated() -> AsyncIterator[tuple[Replicated, Serving]]:
    log = Replicated()
    async with serving(log.handle, append=log.append, in_flight_max=8) as server:
        log.serving = server
        yield log, server


def test_answers_that_wait_for_replicas_are_sent_in_order_and_later_requests_are_served() -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client, other = await server.connect(), await server.connect()
            client.writer.write(plain(1, index=1) + plain(2, index=1) + plain(3))
            await until(lambda: log.end_offset == 3, "all are appended")
            client.writer.write(plain(4) + groups(5, "groups"))
            await until(lambda: "groups" in log.events, "later requests are served meanwhile")
            other.writer.write(plain(9))
            assert await numbers(other, PRODUCE) == [9]
            assert not log.commits[0].done
            (connection,) = [each for each in server.server.clients if each.waiting]
            assert [each.header.correlation_id for each in connection.waiting] == [1, 2]

            log.commits[0].complete(Together(2))

            assert await numbers(client, *[PRODUCE] * 4, GROUPS) == [1, 2, 3, 4, 5]
            assert not connection.waiting
            assert sum(server.metrics.api("Produce").buckets) == 5

    on_uvloop(scenario)


def test_a_wait_that_ends_while_a_request_is_staged_lets_no_later_one_overtake_it() -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client = await server.connect()
            client.writer.write(plain(1, index=1))
            await until(lambda: log.end_offset == 1, "it is appended")
            (connection,) = server.server.clients

            def receive(request: bytes) -> None:
                connection.get_buffer(len(request))[: len(request)] = request
                connection.buffer_updated(len(request))

            # All in one turn of the loop.
            receive(plain(2))
            log.commits[0].complete(Together(1))
            server.parked.run_completed()
            receive(groups(3, "groups"))

            assert await numbers(client, PRODUCE, PRODUCE, GROUPS) == [1, 2, 3]

    on_uvloop(scenario)


def test_answers_of_a_connection_that_waited_together_leave_by_one_write() -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client = await server.connect()
            client.writer.write(b"".join(plain(n, index=1) for n in range(3)))
            await until(lambda: log.end_offset == 3, "all are appended")
            (connection,) = server.server.clients
            sent: list[int] = []
            connection.__class__ = counting(sent)

            log.commits[0].complete(Together(3))

            assert await numbers(client, *[PRODUCE] * 3) == [0, 1, 2]
            assert sent == [3]

    on_uvloop(scenario)


def counting(sent: list[int]) -> type[Connection]:
    class Counting(Connection):
        __slots__ = ()

        def _send(self) -> None:
            if self._out:
                sent.append(len(self._out))
            super()._send()

    return Counting


def test_a_batch_that_is_not_committed_has_the_error_of_its_wait() -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client = await server.connect()
            client.writer.write(plain(1, index=1) + plain(2, index=1))
            await until(lambda: log.end_offset == 2, "both are appended")

            log.commits[0].complete(Together(1, KafkaError(ErrorCode.not_leader_or_follower)))

            for number, code in ((1, ErrorCode.none), (2, ErrorCode.not_leader_or_follower)):
                found, answer = decode_response(PRODUCE, VERSION, await client.frame())
                assert (found, answer.topics[0].partitions[0].error_code) == (number, code)

    on_uvloop(scenario)


def test_a_wait_that_ends_with_a_hangup_closes_its_connections() -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client = await server.connect()
            client.writer.write(plain(1) + plain(2, index=1) + plain(3))
            assert await numbers(client, PRODUCE) == [1]

            log.commits[0].complete(Hangup("stranded"))

            assert await client.closed()

    on_uvloop(scenario)


def test_a_wait_is_given_up_when_its_last_connection_is_gone() -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client, other = await server.connect(), await server.connect()
            client.writer.write(plain(1, index=1))
            await until(lambda: log.end_offset == 1, "it is appended")
            other.writer.write(plain(2, index=1) + plain(3, index=1))
            await until(lambda: log.end_offset == 3, "all are appended")
            other.writer.close()
            await until(lambda: log.commits[1] not in server.parked, "nobody waits for it")
            assert log.commits[0] in server.parked

            log.commits[0].complete(Together(1))

            assert await numbers(client, PRODUCE) == [1]
            assert not len(server.parked)

    on_uvloop(scenario)


def test_a_wait_ends_at_its_deadline() -> None:
    async def scenario() -> None:
        async with replicated() as (log, server):
            client = await server.connect()
            client.writer.write(plain(1, index=1))
            await until(lambda: log.end_offset == 1, "it is appended")

            log.commits[0].deadline_ms = server.clock.monotonic_ms()
            server.parked.tick(server.clock.monotonic_ms() + 60_001)

            _, answer = decode_response(PRODUCE, VERSION, await client.frame())
            assert answer.topics[0].partitions[0].error_code == ErrorCode.request_timed_out

    on_uvloop(scenario)


def test_more_answers_than_are_sent_together_leave_in_request_order() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=1000) as server:
            client = await server.connect()
            pairs = SEND_BUFFERS_MAX + 5
            client.writer.write(
                b"".join(groups(2 * n, "groups") + plain(2 * n + 1) for n in range(pairs))
            )
            assert await numbers(client, *[GROUPS, PRODUCE] * pairs) == list(range(2 * pairs))

    on_uvloop(scenario)


def test_a_full_turn_is_served_before_its_end() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=1000) as server:
            client = await server.connect()
            count = 2 * REQUESTS_MAX + 3
            client.writer.write(b"".join(plain(n) for n in range(count)))
            assert await numbers(client, *[PRODUCE] * count) == list(range(count))
            assert log.events[0] == f"append {REQUESTS_MAX}"
            assert max(int(event.split()[1]) for event in log.events) == REQUESTS_MAX

    on_uvloop(scenario)


def test_staged_requests_count_as_requests_in_flight() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=4) as server:
            client = await server.connect()
            client.writer.write(b"".join(plain(n) for n in range(10)))
            assert await numbers(client, *[PRODUCE] * 10) == list(range(10))
            assert log.events == ["append 4", "append 4", "append 2"]

    on_uvloop(scenario)


def test_requests_received_before_a_malformed_frame_are_answered_before_the_close() -> None:
    async def scenario() -> None:
        log = Log()
        async with serving(log.handle, append=log.append, in_flight_max=50) as server:
            client = await server.connect()
            # More than the first chunk: the malformed frame is received on its own, a read later.
            count = FIRST_CHUNK_BYTES // len(plain(0)) + 5
            client.writer.write(b"".join(plain(n) for n in range(count)) + b"\xff" * 4)
            answered = 0
            while not client.reader.at_eof():
                with suppress(asyncio.IncompleteReadError):
                    assert await numbers(client, PRODUCE) == [answered]
                    answered += 1
            assert answered == log.end_offset
            assert answered >= count - 6

    on_uvloop(scenario)


def test_a_broken_invariant_stops_the_broker_and_acknowledges_nothing() -> None:
    async def scenario() -> None:
        def append(key: Key, requests: list[PlainRequest]) -> None:
            raise Fatal("broken")

        async with serving(Log().handle, append=append) as server:
            client = await server.connect()
            client.writer.write(plain(1))
            assert await client.closed()
            assert [str(error) for error in server.fatal] == ["broken"]

    on_uvloop(scenario)


def test_an_unexpected_error_closes_the_connections_of_the_turn_without_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        log = Log()

        def append(key: Key, requests: list[PlainRequest]) -> list[bytes] | None:
            if key[1] == 1:
                raise RuntimeError("boom")
            return log.append(key, requests)

        async with serving(log.handle, append=append) as server:
            client, other = await server.connect(), await server.connect()
            with caplog.at_level(logging.CRITICAL):
                client.writer.write(plain(1, index=1))
                assert await client.closed()
            other.writer.write(plain(2))
            assert await numbers(other, PRODUCE) == [2]
            assert server.metrics.connections.handler_failures == 1
            assert not server.fatal

    on_uvloop(scenario)


@pytest.mark.parametrize("seed", range(12))
def test_answers_of_any_mix_of_requests_leave_in_their_order(seed: int) -> None:
    rng, count = Random(seed), 60
    keys: list[int] = []
    frames: list[bytes] = []
    for number in range(count):
        kind = rng.choice(("stored", "stored", "waits", "waits", "one by one", "now", "held"))
        index = {"stored": 0, "waits": 1, "one by one": 3}.get(kind)
        if index is not None:
            frames.append(plain(number, index=index))
        else:
            frames.append(groups(number, "groups" if kind == "now" else f"hold {number}"))
        keys.append(GROUPS if index is None else PRODUCE)

    async def scenario() -> None:
        log = Replicated()
        log.takes = lambda index: index != 3
        limit = rng.choice((1, 2, 5, 100))
        async with serving(log.handle, append=log.append, in_flight_max=limit) as server:
            log.serving = server
            client = await server.connect()
            reading = asyncio.ensure_future(numbers(client, *keys))

            def open_waits() -> list[Parked]:
                return [each for each in (*log.commits, *log.held.values()) if not each.done]

            sent = 0
            while not reading.done():
                if sent < count and (rng.random() < 0.5 or not open_waits()):
                    more = rng.randint(1, 9)
                    client.writer.write(b"".join(frames[sent : sent + more]))
                    sent = min(count, sent + more)
                    await client.writer.drain()
                elif waits := open_waits():
                    chosen = rng.choice(waits)
                    is_commit = isinstance(chosen, Commit)
                    chosen.complete(Together(2**31) if is_commit else groups_answer("held"))
                if sent == count:
                    await until(lambda: reading.done() or open_waits(), "an answer or a wait")
            assert await reading == list(range(count))
            assert not len(server.parked)

    on_uvloop(scenario)
