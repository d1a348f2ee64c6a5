"""The asyncio shell: for code on an event loop, such as the journal. (Followers move their own
frames, over `io_asyncio_protocol`.)

Rules: no task is started here. Operations of several tasks share a connection and are answered in
order. Every wait has the operation's absolute deadline. A connection that failed, or timed out, is
closed and never reused.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TypeVar
from uuid import UUID

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import admin, groups, offsets, operations
from josefine_broker.client import fetch as fetching
from josefine_broker.client import produce as writing
from josefine_broker.client.admin import ClusterDescription, ConfigEntry, CreatedTopic, NewTopic
from josefine_broker.client.cluster import Address, ClusterMetadata, parse_bootstrap
from josefine_broker.client.effects import Effect, Exchange, Operation, Pause, Resumed, Unanswered
from josefine_broker.client.fetch import FetchOptions
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.io_asyncio_protocol import ProtocolConnection
from josefine_broker.client.io_blocking_socket import LOGIN_REFUSED, failure
from josefine_broker.client.io_tls import secured
from josefine_broker.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset
from josefine_broker.client.operations import Outcome
from josefine_broker.client.produce import Batch
from josefine_broker.client.security import PLAINTEXT, Security
from josefine_broker.client.session import DEFAULT_POLICY, Policy, Session

__all__ = ["EARLIEST", "LATEST", "MAX_TIMESTAMP", "AsyncClient", "NewTopic", "Policy"]

T = TypeVar("T")


class AsyncClient:
    """`BlockingClient`'s methods as coroutines, for one event loop."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "josefine",
        policy: Policy = DEFAULT_POLICY,
        rng: Random | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        """Opens only the files of `security`. Raises ValueError for a bootstrap that is no list of
        host:port, and for invalid files."""
        self._session = Session(parse_bootstrap(bootstrap), policy, rng or Random())
        self._client_id = client_id
        self._secured = secured(security)
        self._connections: dict[Address, ProtocolConnection] = {}
        self._connecting: dict[Address, asyncio.Lock] = {}
        self._is_closed = False

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; running operations end with network_exception."""
        self._is_closed = True
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()

    async def metadata(
        self, topics: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> ClusterMetadata:
        """Brokers and topics (None: all). A topic that does not exist carries its error."""
        return await self._run(
            lambda t, d: operations.metadata(self._session, topics, t, d), timeout_ms
        )

    def topic_id(self, topic: str) -> UUID | None:
        """The id in the last metadata (KIP-516); None if they had none."""
        return self._session.cluster.topic_id(topic)

    async def partition_count(self, topic: str, *, timeout_ms: int | None = None) -> int:
        """Partitions of a topic. Raises KafkaError(unknown_topic_or_partition)."""
        return await self._run(
            lambda t, d: operations.partition_count(self._session, topic, t, d), timeout_ms
        )

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation_level: int = 0,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Partition → EARLIEST, LATEST, MAX_TIMESTAMP or milliseconds; offset -1: no record that
        late."""
        return await self._run(
            lambda t, d: offsets.list_offsets(self._session, wanted, isolation_level, t, d),
            timeout_ms,
        )

    async def fetch(
        self,
        positions: Mapping[TopicPartition, int],
        options: FetchOptions | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, FetchedPartition]:
        """Long-poll once; see `BlockingClient.fetch`."""
        chosen = options or FetchOptions()
        if timeout_ms is None:
            timeout_ms = self._session.policy.request_timeout_ms + chosen.max_wait_ms
        return await self._run(
            lambda t, d: fetching.fetch(self._session, positions, chosen, t, d), timeout_ms
        )

    async def produce(
        self,
        batches: Mapping[TopicPartition, Batch],
        *,
        acks: int = -1,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, int]:
        """Write one batch per partition; base offsets (-1 with acks=0). Raises the first error."""
        written = operations.results(
            await self.produce_outcomes(batches, acks=acks, timeout_ms=timeout_ms)
        )
        return {tp: w.base_offset if w else writing.UNKNOWN_OFFSET for tp, w in written.items()}

    async def produce_outcomes(
        self,
        batches: Mapping[TopicPartition, Batch],
        *,
        acks: int = -1,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Outcome]:
        """Like `produce`, but each partition has its own error or `produce.Written`."""
        return await self._run(
            lambda t, d: writing.produce(self._session, batches, acks, t, d), timeout_ms
        )

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int | None = None
    ) -> dict[str, CreatedTopic]:
        return await self._run(
            lambda t, d: admin.create_topics(self._session, topics, False, t, d), timeout_ms
        )

    async def delete_topics(self, names: Sequence[str], *, timeout_ms: int | None = None) -> None:
        await self._run(lambda t, d: admin.delete_topics(self._session, names, t, d), timeout_ms)

    async def commit_offsets(
        self, group: str, committed: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> None:
        """Store the next offset to read per partition, for a group without members."""
        await self._run(
            lambda t, d: groups.commit_offsets(self._session, group, committed, t, d), timeout_ms
        )

    async def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The committed offsets; a partition without one is absent."""
        wanted = tuple(partitions)
        return await self._run(
            lambda t, d: groups.committed_offsets(self._session, group, wanted, t, d), timeout_ms
        )

    async def init_producer_id(self, *, timeout_ms: int | None = None) -> ProducerIdentity:
        return await self._run(
            lambda t, d: groups.init_producer_id(self._session, t, d), timeout_ms
        )

    async def describe_configs(
        self, topics: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, ConfigEntry]]:
        return await self._run(
            lambda t, d: admin.describe_configs(self._session, topics, t, d), timeout_ms
        )

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        return await self._run(lambda t, d: admin.describe_cluster(self._session, t, d), timeout_ms)

    async def _run(
        self, operation: Callable[[int, int], Operation[T]], timeout_ms: int | None
    ) -> T:
        if timeout_ms is None:
            timeout_ms = self._session.policy.request_timeout_ms
        now_ms = monotonic_ms()
        steps = operation(now_ms, now_ms + timeout_ms)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(await self._perform(effect))
                if self._is_closed:
                    raise KafkaError(ErrorCode.network_exception, "the client is closed")
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _perform(self, effect: Effect) -> Resumed:
        if isinstance(effect, Pause):
            await asyncio.sleep(max(0, effect.until_ms - monotonic_ms()) / 1000)
            return Resumed(monotonic_ms())
        replies = await self._exchange(effect)
        return Resumed(monotonic_ms(), replies)

    async def _exchange(self, exchange: Exchange) -> tuple[object, ...]:
        """Send all requests, then receive all answers: brokers work at the same time."""
        asked: list[tuple[ProtocolConnection, asyncio.Future[object] | None] | Unanswered] = []
        for call in exchange.calls:
            try:
                connection = await self._connected(
                    self._session.candidates(call.node), exchange.deadline_ms
                )
                answer = connection.send(
                    call.api_key, call.request, wants_response=call.wants_response
                )
                asked.append((connection, answer))
            except KafkaError as error:
                asked.append(Unanswered(error))
        replies: list[object] = []
        for where in asked:
            if isinstance(where, Unanswered):
                replies.append(where)
            else:
                replies.append(await self._answer(*where, exchange.deadline_ms))
        return tuple(replies)

    async def _answer(
        self,
        connection: ProtocolConnection,
        answer: asyncio.Future[object] | None,
        deadline_ms: int,
    ) -> object:
        if answer is None:
            return None
        try:
            async with asyncio.timeout(max(0, deadline_ms - monotonic_ms()) / 1000):
                return await answer
        except TimeoutError:
            connection.close()
            return Unanswered(
                KafkaError(
                    ErrorCode.request_timed_out, f"{connection.address} did not answer in time"
                )
            )
        except KafkaError as error:
            return Unanswered(error)

    async def _connected(
        self, candidates: Sequence[Address], deadline_ms: int
    ) -> ProtocolConnection:
        """An open connection to one of `candidates`, otherwise a new one to the first that
        answers."""
        for address in candidates:
            connection = self._connections.get(address)
            if connection is not None and connection.is_usable:
                return connection
        reasons = []
        for address in candidates:
            async with self._connecting.setdefault(address, asyncio.Lock()):
                connection = self._connections.get(address)
                if connection is not None and connection.is_usable:
                    return connection
                try:
                    return await self._open(address, deadline_ms)
                except (KafkaError, CorruptData, OSError) as error:
                    if isinstance(error, KafkaError) and error.code in LOGIN_REFUSED:
                        raise
                    reasons.append(f"{address} ({failure(error)})")
        raise KafkaError(
            ErrorCode.network_exception, f"cannot reach a broker at {', '.join(reasons)}"
        )

    async def _open(self, address: Address, deadline_ms: int) -> ProtocolConnection:
        connect_ms = monotonic_ms() + self._session.policy.connect_timeout_ms
        left_s = max(0, min(deadline_ms, connect_ms) - monotonic_ms()) / 1000
        async with asyncio.timeout(left_s):
            connection = await ProtocolConnection.open(address, self._client_id, self._secured)
        if self._is_closed:
            connection.close()
            raise KafkaError(ErrorCode.network_exception, "the client is closed")
        self._connections[address] = connection
        self._session.connected()
        return connection


def monotonic_ms() -> int:
    """Monotonic milliseconds: the unit of deadlines."""
    return time.monotonic_ns() // 1_000_000
