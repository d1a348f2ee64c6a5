"""The blocking shell: sockets for Spark executors, the command line and tests.

Rules: every wait has the operation's absolute deadline; a connection that failed in any way is
closed and never reused; an answer is received straight into one buffer of its size. One operation
runs at a time: a client may be used by a prefetch thread and its owner, and `close` from any thread
ends a wait.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TypeVar
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
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
from josefine_broker.client.io_blocking_socket import LOGIN_REFUSED, SocketConnection, failure
from josefine_broker.client.io_tls import secured
from josefine_broker.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset
from josefine_broker.client.operations import Outcome
from josefine_broker.client.produce import Batch
from josefine_broker.client.producing import (
    BATCH_BYTES_MAX,
    BUFFER_BYTES_MAX,
    Accumulator,
    Delivered,
    Headers,
)
from josefine_broker.client.security import PLAINTEXT, Security
from josefine_broker.client.session import DEFAULT_POLICY, Policy, Session
from josefine_broker.client.watching import Doing, Watch, unwatched, wait_for

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "BlockingClient",
    "BlockingProducer",
    "FetchedPartition",
    "ListedOffset",
    "NewTopic",
    "Policy",
]

T = TypeVar("T")


class BlockingClient:
    """A blocking Kafka client. Every method raises KafkaError with one clear sentence."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "josefine",
        policy: Policy = DEFAULT_POLICY,
        rng: Random | None = None,
        watch: Watch = unwatched,
        security: Security = PLAINTEXT,
    ) -> None:
        """Opens only the files of `security`. Raises ValueError for a bootstrap that is no list of
        host:port, and for invalid files."""
        self._session = Session(parse_bootstrap(bootstrap), policy, rng or Random())
        self._client_id = client_id
        self._secured = secured(security)
        self._connections: dict[Address, SocketConnection] = {}
        self._doing = Doing(self._session, monotonic_ms)
        self._watch = watch
        self._lock = threading.RLock()
        self._closed = threading.Event()

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; a wait in another thread ends with network_exception."""
        self._closed.set()
        for connection in list(self._connections.values()):
            connection.close()

    def metadata(
        self, topics: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> ClusterMetadata:
        """Brokers and topics (None: all). A topic that does not exist carries its error."""
        return self._run(lambda t, d: operations.metadata(self._session, topics, t, d), timeout_ms)

    def known_topic_id(self, topic: str) -> UUID | None:
        """The id of this topic in the last metadata; sends no request."""
        return self._session.cluster.topic_id(topic)

    def partition_count(
        self, topic: str, *, create: bool = False, timeout_ms: int | None = None
    ) -> int:
        """Partitions of a topic. With `create` the broker may create it, if it does so for
        producers. Raises KafkaError(unknown_topic_or_partition)."""
        return self._run(
            lambda t, d: operations.partition_count(self._session, topic, t, d, create=create),
            timeout_ms,
        )

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation_level: int = 0,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Partition → EARLIEST, LATEST, MAX_TIMESTAMP or milliseconds; offset -1: no record that
        late."""
        return self._run(
            lambda t, d: offsets.list_offsets(self._session, wanted, isolation_level, t, d),
            timeout_ms,
        )

    def fetch(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        bytes_max: int = 50 * 1024 * 1024,
        partition_bytes_max: int = 8 * 1024 * 1024,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        isolation_level: int = 0,
        rack_id: str = "",
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, FetchedPartition]:
        """Long-poll once. `records` keeps its buffer alive; when it is dropped the buffer is
        reused.

        Partitions with a retriable error are absent, unless all have one.
        """
        options = FetchOptions(
            bytes_max=bytes_max,
            partition_bytes_max=partition_bytes_max,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            isolation_level=isolation_level,
            rack_id=rack_id,
        )
        if timeout_ms is None:  # a long poll may use its wait in addition
            timeout_ms = self._session.policy.request_timeout_ms + max_wait_ms
        return self._run(
            lambda t, d: fetching.fetch(self._session, positions, options, t, d), timeout_ms
        )

    def produce(
        self,
        batches: Mapping[TopicPartition, Batch],
        *,
        acks: int = -1,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, int]:
        """Write one batch per partition; base offsets (-1 with acks=0). Raises the first error."""
        written = operations.results(
            self.produce_outcomes(batches, acks=acks, timeout_ms=timeout_ms)
        )
        return {tp: w.base_offset if w else writing.UNKNOWN_OFFSET for tp, w in written.items()}

    def produce_outcomes(
        self,
        batches: Mapping[TopicPartition, Batch],
        *,
        acks: int = -1,
        timeout_ms: int | None = None,
        transactional_id: str | None = None,
    ) -> dict[TopicPartition, Outcome]:
        """Like `produce`, but each partition has its own error or `produce.Written`."""
        return self._run(
            lambda t, d: writing.produce(self._session, batches, acks, t, d, transactional_id),
            timeout_ms,
        )

    def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, CreatedTopic]:
        return self._run(
            lambda t, d: admin.create_topics(self._session, topics, validate_only, t, d),
            timeout_ms,
        )

    def delete_topics(self, names: Sequence[str], *, timeout_ms: int | None = None) -> None:
        self._run(lambda t, d: admin.delete_topics(self._session, names, t, d), timeout_ms)

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Topic → new total number of partitions."""
        self._run(
            lambda t, d: admin.create_partitions(self._session, counts, validate_only, t, d),
            timeout_ms,
        )

    def describe_configs(
        self, topics: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, ConfigEntry]]:
        return self._run(
            lambda t, d: admin.describe_configs(self._session, topics, t, d), timeout_ms
        )

    def alter_configs(
        self,
        changes: Mapping[str, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Topic → configuration → value (None: back to the default); others stay."""
        self._run(
            lambda t, d: admin.alter_configs(self._session, changes, validate_only, t, d),
            timeout_ms,
        )

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Delete records below an offset (-1: all); returns the new log start offsets."""
        return self._run(
            lambda t, d: offsets.delete_records(self._session, before, t, d), timeout_ms
        )

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        metadata: str | Mapping[TopicPartition, str] = "",
        timeout_ms: int | None = None,
    ) -> None:
        """Store the next offset to read per partition, for a group without members."""
        self._run(
            lambda t, d: groups.commit_offsets(
                self._session, group, offsets, t, d, metadata=metadata
            ),
            timeout_ms,
        )

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The committed offsets; a partition without one is absent."""
        wanted = tuple(partitions)
        return self._run(
            lambda t, d: groups.committed_offsets(self._session, group, wanted, t, d), timeout_ms
        )

    def init_producer_id(self, *, timeout_ms: int | None = None) -> ProducerIdentity:
        return self._run(lambda t, d: groups.init_producer_id(self._session, t, d), timeout_ms)

    def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        return self._run(lambda t, d: admin.describe_cluster(self._session, t, d), timeout_ms)

    def run(
        self,
        operation: Callable[[Session, int, int], Operation[T]],
        *,
        timeout_ms: int | None = None,
    ) -> T:
        """Run an operation without a method here: of `group_admin` or `membership`."""
        return self._run(lambda t, d: operation(self._session, t, d), timeout_ms)

    def _run(self, operation: Callable[[int, int], Operation[T]], timeout_ms: int | None) -> T:
        if timeout_ms is None:
            timeout_ms = self._session.policy.request_timeout_ms
        with self._lock, self._watch(self._doing.describe):
            now_ms = monotonic_ms()
            steps = operation(now_ms, now_ms + timeout_ms)
            try:
                effect = next(steps)
                while True:
                    effect = steps.send(self._perform(effect))
                    if self._closed.is_set():
                        self.close()  # also connections opened while another thread closed
                        raise KafkaError(ErrorCode.network_exception, "the client is closed")
            except StopIteration as stop:
                result: T = stop.value
                return result

    def _perform(self, effect: Effect) -> Resumed:
        self._doing.begins("")
        if isinstance(effect, Pause):
            self._closed.wait((effect.until_ms - monotonic_ms()) / 1000)
            return Resumed(monotonic_ms())
        replies = self._exchange(effect)
        return Resumed(monotonic_ms(), replies)

    def _exchange(self, exchange: Exchange) -> tuple[object, ...]:
        """Send all requests, then receive all answers: brokers work at the same time."""
        deadline_ms = exchange.deadline_ms
        asked: list[SocketConnection | Unanswered] = []
        for call in exchange.calls:
            connection: SocketConnection | None = None
            try:
                connection = self._connected(self._session.candidates(call.node), deadline_ms)
                self._doing.begins(f"sending to {connection.address}")
                connection.send(
                    call.api_key, call.request, deadline_ms, wants_response=call.wants_response
                )
                asked.append(connection)
            except KafkaError as error:
                self._drop(connection, error)
                asked.append(Unanswered(error))
        replies: list[object] = []
        for call, where in zip(exchange.calls, asked, strict=True):
            if isinstance(where, Unanswered) or not call.wants_response:
                replies.append(where if isinstance(where, Unanswered) else None)
                continue
            self._doing.begins(wait_for(call.api_key, where.address))
            try:
                replies.append(where.receive(deadline_ms))
            except KafkaError as error:
                self._drop(where, error)
                replies.append(Unanswered(error))
        return tuple(replies)

    def _drop(self, connection: SocketConnection | None, error: KafkaError) -> None:
        """Close a connection unless it refused the request before a byte of it was sent."""
        if connection is not None and error.code is not ErrorCode.unsupported_version:
            connection.close()
            self._connections.pop(connection.address, None)

    def _connected(self, candidates: Sequence[Address], deadline_ms: int) -> SocketConnection:
        """An open connection to one of `candidates`, otherwise a new one to the first that
        answers."""
        for address in candidates:
            if address in self._connections:
                return self._connections[address]
        reasons = []
        for address in candidates:
            self._doing.begins(f"connecting to {address}")
            connect_ms = monotonic_ms() + self._session.policy.connect_timeout_ms
            try:
                connection = SocketConnection.open(
                    address, self._client_id, min(deadline_ms, connect_ms), self._secured
                )
            except (KafkaError, OSError) as error:
                if isinstance(error, KafkaError) and error.code in LOGIN_REFUSED:
                    raise  # no other broker accepts it, and repeated failures are delayed
                reasons.append(f"{address} ({failure(error)})")
                continue
            self._connections[address] = connection
            if self._closed.is_set():  # `close` may have come before it was in the table
                connection.close()
            self._session.connected()
            return connection
        raise KafkaError(
            ErrorCode.network_exception, f"cannot reach a broker at {', '.join(reasons)}"
        )


class BlockingProducer:
    """Collects records and writes them in batches, in order; idempotent unless acks is 0 or 1.

    `send` writes full batches before it takes more; `flush` writes the rest. An error ends the
    producer: unacknowledged records may or may not be in the topic.
    """

    def __init__(
        self,
        client: BlockingClient,
        *,
        acks: int = -1,
        compression: int = 0,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
        idempotent: bool | None = None,
        timeout_ms: int | None = None,
        rng: Random | None = None,
    ) -> None:
        wants_identity = acks == -1 if idempotent is None else idempotent
        identity = client.init_producer_id() if wants_identity else None
        self._client = client
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._buffer_bytes_max = buffer_bytes_max
        self._partition_counts: dict[str, int] = {}
        self._accumulator = Accumulator(
            identity, rng or Random(), compression=compression, batch_bytes_max=batch_bytes_max
        )

    @property
    def delivered(self) -> dict[TopicPartition, Delivered]:
        """The records acknowledged so far, per partition."""
        return self._accumulator.delivered

    def send(
        self,
        topic: str,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Take one record; writes batches first when the buffer is full. Raises KafkaError."""
        count = self._partition_counts.get(topic) or self._count_partitions(topic)
        if partition is None:
            partition = self._accumulator.choose_partition(topic, key, count)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        tp = TopicPartition(topic, partition)
        self._accumulator.append(tp, key, value, headers, timestamp_ms)
        if self._accumulator.buffered_bytes > self._buffer_bytes_max:
            self._accumulator.seal_all()
        if self._accumulator.has_sealed and self._is_worth_a_request():
            self._write()

    def flush(self) -> None:
        """Write everything taken so far. Raises the first error."""
        self._accumulator.seal_all()
        while self._accumulator.has_sealed:
            self._write()
        self._accumulator.raise_error()

    def _is_worth_a_request(self) -> bool:
        return self._accumulator.buffered_bytes * 2 > self._buffer_bytes_max

    def _write(self) -> None:
        batches = self._accumulator.take()
        outcomes = self._client.produce_outcomes(
            batches, acks=self._acks, timeout_ms=self._timeout_ms
        )
        for tp, outcome in outcomes.items():
            written = outcome.result
            base_offset = written.base_offset if written else writing.UNKNOWN_OFFSET
            self._accumulator.settle(tp, base_offset, outcome.error)
        self._accumulator.raise_error()

    def _count_partitions(self, topic: str) -> int:
        count = self._client.partition_count(topic)
        self._partition_counts[topic] = count
        return count


def monotonic_ms() -> int:
    """Monotonic milliseconds: the unit of deadlines."""
    return time.monotonic_ns() // 1_000_000
