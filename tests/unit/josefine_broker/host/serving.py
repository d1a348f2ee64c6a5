"""A real server on a real socket around routes that a test writes itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.quotas import Quotas
from josefine_broker.engine.purgatory.purgatory import Parked, ParkedRequests
from josefine_broker.engine.replicas.plain_batches import SENT, Stored
from josefine_broker.engine.replicas.plain_parts import Placed
from josefine_broker.host.clock import RealClock
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.connection_host import ConnectionLimits, Host
from josefine_broker.host.net.dispatch import Dispatcher, Peer, Route
from josefine_broker.host.net.late_answers import LateAnswers
from josefine_broker.host.net.produce_turn import Appends, ProduceTurn
from josefine_broker.host.net.server import Server, bind
from josefine_broker.host.net.throttling import Throttle
from josefine_broker.host.ticker import Ticker
from josefine_broker.records.plain_produce import Key, PlainRequest, compiled
from josefine_broker.wire import entities as e
from josefine_broker.wire.apis import APIS, PRODUCE
from josefine_broker.wire.codec import RequestHeader, decode_response, encode_request
from josefine_broker.wire.produce import (
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
)
from tests.support.waiting import wait_until_async

AppendParts = Callable[[list[list[PlainRequest]], list[list[int]]], list[Placed | None]]
Handle = Callable[[RequestHeader, Peer, Any], Any]
Append = Callable[[Key, list[PlainRequest]], "Stored | list[bytes] | None"]
"""What became of the requests of one partition, or their answers."""
GROUPS = 16  # ListGroups: the smallest request with a text in its answer


def groups_answer(text: str) -> e.list_groups.ListGroupsResponse:
    group = e.list_groups.ListedGroup(group_id=text, protocol_type="")
    return e.list_groups.ListGroupsResponse(groups=(group,))


def refuse(body: Any, error: KafkaError) -> e.list_groups.ListGroupsResponse:
    return e.list_groups.ListGroupsResponse(error_code=error.code, groups=())


class Held(Parked):
    """A request that waits until a test releases it, or its deadline."""

    __slots__ = ("text",)

    def __init__(self, deadline_ms: int, text: str) -> None:
        super().__init__(deadline_ms)
        self.text = text

    def try_complete(self, partition: object, now_ms: int) -> bool:
        self.complete(groups_answer(self.text))
        return True

    def expire(self, now_ms: int) -> None:
        self.complete(groups_answer(f"{self.text} expired"))


class Serving:
    """What a test holds: the server, its parts, and how to talk to it."""

    def __init__(
        self,
        routes: Mapping[int, Handle],
        quotas: Quotas | None = None,
        append: Append | None = None,
        append_parts: AppendParts | None = None,
        **limits: int,
    ) -> None:
        """`append` serves plain produce requests, all of a turn together; `append_parts` those of
        turns in which one has several partitions."""
        self.metrics = Metrics()
        self.parked = ParkedRequests()
        self.clock = RealClock()
        self.fatal: list[BaseException] = []
        self.ticker = Ticker(self.clock, self.parked, (), self.fatal.append)
        throttle = Throttle(lambda: quotas or {}, self.clock.monotonic_ms, self.metrics.throttles)
        dispatcher = Dispatcher(
            {key: self._route(key, handle) for key, handle in routes.items()},
            lambda: e.api_versions.ApiVersionsResponse(
                error_code=ErrorCode.unsupported_version, api_keys=()
            ),
            self.metrics.connections,
            throttle,
        )
        bounds = {"frame_bytes_max": 1 << 20, "in_flight_max": 4, "write_buffer_bytes": 1 << 16}
        bounds["request_bytes_max"] = 1 << 30
        connections_max = limits.pop("connections_max", 100)
        idle_timeout_ms = limits.pop("idle_timeout_ms", 60_000)
        host = Host(
            dispatcher=dispatcher,
            limits=ConnectionLimits(**{**bounds, **limits}),
            stats=self.metrics.connections,
            on_parked=self.ticker.arm,
            forget=self.parked.cancel,
            on_fatal=self.fatal.append,
            monotonic_ms=self.clock.monotonic_ms,
            turn=None if append is None else self._turn(append, append_parts),
        )
        self.server = Server(host, connections_max=connections_max, idle_timeout_ms=idle_timeout_ms)
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    def _turn(self, append: Append, append_parts: AppendParts | None) -> ProduceTurn:
        def append_alone(request: PlainRequest, send: Callable[[bytes], None]) -> Stored | None:
            stored = append_groups({request[0]: [request]})[request[0]]
            if stored is None or stored.waits:
                return stored
            send(stored.answers[0])
            return SENT

        def append_groups(
            groups: Mapping[Key, list[PlainRequest]],
        ) -> dict[Key, Stored | None]:
            found = {key: append(key, requests) for key, requests in groups.items()}
            return {k: Stored(v) if isinstance(v, list) else v for k, v in found.items()}

        def refuse_late(request: PlainRequest, error: KafkaError, listener: str) -> Any:
            by_name = None if request[0][2] else request[0][0].decode()
            part = ProducePartitionResponse(request[0][1], error.code.value)
            return ProduceResponse((ProduceTopicResponse(by_name or "", None, (part,)),))

        def refuse_parts(*_: object) -> Any:
            raise AssertionError("no part is refused")

        assert compiled is not None
        return ProduceTurn(
            compiled,
            Appends(
                append_alone,
                append_groups,
                append_parts or (lambda groups, _: [None] * len(groups)),
            ),
            lambda: True,
            LateAnswers(
                compiled, refuse_late, refuse_parts, self.parked.cancel, self.metrics.api("Produce")
            ),
            self.metrics.connections,
            self.fatal.append,
            asyncio.get_running_loop().call_soon,
        )

    def _route(self, key: int, handle: Handle) -> Route:
        spec = APIS[key]
        stats = self.metrics.api(spec.name)
        return Route(
            name=spec.name,
            min_version=spec.min_version,
            max_version=spec.max_version,
            handle=handle,
            refuse=refuse,
            stats=stats,
        )

    def hold(self, text: str, key: str = "key", wait_ms: int = 60_000) -> Held:
        held = Held(self.clock.monotonic_ms() + wait_ms, text)
        self.parked.park(held, partitions=[(key, 0)])
        return held

    def release(self, key: str = "key") -> None:
        self.parked.wake((key, 0), self.clock.monotonic_ms())

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return Client(reader, writer)

    async def stop(self) -> None:
        """The clients' ends first: a socket that nobody closed warns in some later test."""
        for writer in self._writers:
            writer.close()
        self.ticker.stop()
        await self.server.stop(5)


class Client:
    """A client of one connection; answers are told by their correlation ids."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def ask(self, correlation_id: int, text: str = "", version: int = 4) -> None:
        """Send a ListGroups whose first state filter is `text`."""
        body = e.list_groups.ListGroupsRequest(states_filter=(text,))
        self.writer.writelines(encode_request(GROUPS, version, correlation_id, None, body))

    async def frame(self) -> memoryview:
        async with asyncio.timeout(60):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return memoryview(bytearray(await self.reader.readexactly(size)))

    async def answer(self, version: int = 4) -> tuple[int, str]:
        """Correlation id and group name of the next answer (its error's name when it has none)."""
        correlation_id, entity = decode_response(GROUPS, version, await self.frame())
        text = entity.groups[0].group_id if entity.groups else entity.error_code.name
        return correlation_id, text

    async def closed(self) -> bool:
        """Whether the server ends the connection without a further byte."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


@asynccontextmanager
async def serving(
    handle: Handle,
    *,
    key: int = GROUPS,
    quotas: Quotas | None = None,
    append: Append | None = None,
    append_parts: AppendParts | None = None,
    **limits: int,
) -> AsyncIterator[Serving]:
    """A running server whose ListGroups (or what has that key) is `handle`; with `append`, Produce
    is `handle`, too."""
    routes = {key: handle} if append is None else {key: handle, PRODUCE: handle}
    serving = Serving(routes, quotas, append, append_parts, **limits)
    bound = bind("TEST", "127.0.0.1", 0)
    await serving.server.start([bound])
    serving.ticker.start()
    serving.port = bound.port
    try:
        yield serving
    finally:
        await serving.stop()


async def until(condition: Callable[[], Any], what: str) -> None:
    """Let the loop run until `condition`; AssertionError after a minute."""
    await wait_until_async(condition, 60, what)
