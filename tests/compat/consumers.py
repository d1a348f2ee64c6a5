"""One face for the consumers of three clients that subscribe: the behaviours are the same for each.

A consumer works only while it is polled; tests wait for conditions with `poll` in between. Nothing
is committed but by `commit`. A static member (`instance_id`) does not leave its group when it is
closed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import aiokafka
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaConnectionError

T = TypeVar("T")

SESSION_MS = 30_000
"""Longer than a busy machine lets a client be late."""
HEARTBEAT_MS = 500
POLL_SECONDS = 0.1
PATIENT_SECONDS = 1.0
"""A round of joins on a busy machine is shorter."""
CALL_SECONDS = 60.0


class Read(NamedTuple):
    """One record."""

    partition: int
    offset: int
    value: bytes | None


class GroupConsumer(Protocol):
    """A member of a group that reads one topic."""

    def poll(self) -> list[Read]:
        """What has come within a moment."""
        ...

    def assigned(self) -> set[int]: ...

    def commit(self) -> None:
        """All that was polled. Raises what the client raises."""
        ...

    def close(self) -> None:
        """Twice does no harm."""
        ...


class Librdkafka:
    """confluent_kafka."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        instance_id: str | None = None,
        strategy: str = "range,roundrobin",
    ) -> None:
        """With each of the others it has one strategy in common."""
        self.revoked: list[set[int]] = []
        """What was taken from it, each time."""
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": strategy,
            "topic.metadata.refresh.interval.ms": 1_000,
        }
        if instance_id is not None:
            config["group.instance.id"] = instance_id
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic], on_revoke=self._on_revoke)

    def _on_revoke(self, _consumer: Consumer, partitions: list[LibrdkafkaPartition]) -> None:
        self.revoked.append({each.partition for each in partitions})

    def poll(self) -> list[Read]:
        message = self._consumer.poll(POLL_SECONDS)
        if message is None:
            return []
        error = message.error()
        if error is not None:
            assert error.retriable() or error.code() in _PASSING, error
            return []
        return [Read(message.partition(), message.offset(), message.value())]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def close(self) -> None:
        self._consumer.close()


class LibrdkafkaByHeartbeats(Librdkafka):
    """The same by the consumer protocol (KIP-848): the coordinator assigns, and the broker says how
    often its members are to be heard."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, instance_id: str | None = None
    ) -> None:
        """A topic that begins with `^` is an expression."""
        self.revoked: list[set[int]] = []
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1_000,
        }
        if instance_id is not None:
            config["group.instance.id"] = instance_id
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic], on_revoke=self._on_revoke)


_PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
)
"""What librdkafka tells of a broker that was killed, and goes on."""


def _reads(polled: Mapping[Any, Iterable[Any]]) -> list[Read]:
    """Partition → records, as kafka-python and aiokafka give them."""
    return [
        Read(each.partition, each.offset, each.value)
        for records in polled.values()
        for each in records
    ]


class KafkaPython:
    """kafka-python, on a thread of its own that polls for seconds.

    A join that completes between two of its polls is thrown away and begun anew (3.0.12,
    `coordinator/base.py`: `_join_task.is_done`). Members that one thread polls in turn, each for
    a moment only, complete each other's joins just there, and may rebalance for ever.
    """

    def __init__(
        self, bootstrap: str, group: str, topic: str, instance_id: str | None = None
    ) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._polling: Future[list[Read]] | None = None
        self._next: dict[KafkaPythonPartition, int] = {}
        """Where each partition goes on, of the records that were given out."""
        self._topic = topic
        self._closed = False
        self._consumer = self._run(
            partial(
                KafkaConsumer,
                topic,
                bootstrap_servers=bootstrap.split(","),
                group_id=group,
                group_instance_id=instance_id,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
            )
        )

    def _run(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result(CALL_SECONDS)

    def _poll(self) -> list[Read]:
        try:
            polled = self._consumer.poll(timeout_ms=int(PATIENT_SECONDS * 1_000))
        except KafkaConnectionError:
            return []  # it asked a broker that is gone who coordinates, and asks another one next
        return _reads(polled)

    def poll(self) -> list[Read]:
        if self._polling is None:
            self._polling = self._thread.submit(self._poll)
        if not wait([self._polling], POLL_SECONDS).done:
            return []
        polling, self._polling = self._polling, None
        read = polling.result()
        for each in read:
            self._next[KafkaPythonPartition(self._topic, each.partition)] = each.offset + 1
        return read

    def assigned(self) -> set[int]:
        found: set[KafkaPythonPartition] = self._consumer.assignment()
        return {each.partition for each in found}

    def commit(self) -> None:
        ends = {
            each: OffsetAndMetadata(self._next[each], "", -1)
            for each in self._consumer.assignment() & self._next.keys()
        }
        self._run(lambda: self._consumer.commit(ends or None, timeout_ms=int(CALL_SECONDS * 1_000)))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._run(partial(self._consumer.close, autocommit=False, timeout_ms=5_000))
            self._thread.shutdown()


class Aiokafka:
    """aiokafka, on an event loop of its own: its heartbeats need one that always runs."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, instance_id: str | None = None
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def start() -> aiokafka.AIOKafkaConsumer:
            consumer = aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                group_instance_id=instance_id,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                metadata_max_age_ms=1_000,
            )
            await consumer.start()
            return consumer

        self._consumer = self._run(start())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def poll(self) -> list[Read]:
        polled = self._run(self._consumer.getmany(timeout_ms=int(POLL_SECONDS * 1_000)))
        return _reads(polled)

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self._run(self._consumer.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_SECONDS)
            self._loop.close()


Subscribe = Callable[..., GroupConsumer]
"""(bootstrap, group, topic, instance_id) → a consumer that has begun to join."""

CLIENTS: dict[str, Subscribe] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
