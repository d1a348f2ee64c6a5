"""One face for the transactional producers of three clients in Python, as `foreign.Teller` is for
those of other languages: begin, send, commit, abort.

Each send is back when it is acknowledged. Raises what the client raises.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

CALL_SECONDS = 90.0
"""Of one call, on a machine that others use too."""
CLOSE_SECONDS = 5


class Teller(Protocol):
    """A transactional producer that writes to one topic."""

    def begin(self) -> None: ...

    def send(self, partition: int, value: str) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Librdkafka:
    """confluent_kafka."""

    def __init__(self, bootstrap: str, id_: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": id_})
        self._producer.init_transactions(CALL_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: str) -> None:
        self._producer.produce(self._topic, value.encode(), partition=partition)
        assert self._producer.flush(CALL_SECONDS) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(CALL_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(CALL_SECONDS)

    def close(self) -> None:
        self._producer.flush(CLOSE_SECONDS)


class KafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap: str, id_: str, topic: str) -> None:
        self._topic = topic
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=id_)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: str) -> None:
        self._producer.send(self._topic, value.encode(), partition=partition).get(CALL_SECONDS)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=CLOSE_SECONDS)


class Aiokafka:
    """aiokafka, in a loop of its own thread."""

    def __init__(self, bootstrap: str, id_: str, topic: str) -> None:
        self._topic = topic
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._producer = self._run(self._start(bootstrap, id_))

    async def _start(self, bootstrap: str, id_: str) -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=id_)
        await producer.start()
        return producer

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, partition: int, value: str) -> None:
        self._run(self._producer.send_and_wait(self._topic, value.encode(), partition=partition))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        self._loop.close()


TELLERS: dict[str, Callable[[str, str, str], Teller]] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
"""By client: (bootstrap, transactional id, topic) → a producer whose id is its own."""
