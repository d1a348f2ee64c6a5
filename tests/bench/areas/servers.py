"""Brokers under measure, ours and Apache Kafka's, with one surface: one alone or three.

What differs between them is how they are started and their settings; everything that is asked of
them goes over the protocol, so that both are asked alike.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.bench.areas.area import Opened, Options
from tests.bench.brokers import Running, client
from tests.bench.fresh_pages import take_and_free
from tests.support.apache_kafka import NAME, POM, ApacheKafka, cluster_of_three
from tests.support.broker import BrokerProcess
from tests.support.cluster import DEFAULT_TIMINGS, REPLICATED, Cluster
from tests.support.maven import NoJarsError, jars_of
from tests.support.waiting import wait_until

OURS, KAFKA = "josefine", "kafka"
MANY_CONNECTIONS: dict[str, object] = {
    "network__connections_max": 6_000,
    "network__connections_per_address_max": 6_000,
}
"""Kafka has no such limits unless they are set."""
ASKED_S = 120.0
PARTITIONS_AT_ONCE = 5_000
"""Apache Kafka's controller refuses a request of more than 10,000 metadata records; a topic of more
is made in steps of so many, which it has to be a multiple of."""
CLIENT_BYTES = 1 << 30
"""Of a client's process, at the most, without its records."""
HEAP_OF_THREE = "512m"
WARM_UP_RECORDS, WARM_UP_SIZE = 300_000, 100
WARM_UP_CONNECTIONS, WARM_UP_S = 10, 3


@dataclass(slots=True)
class Served:
    """Brokers that serve as one cluster. Mutable: the number of topics made so far, and the admin
    client once it was needed."""

    name: str
    brokers: Mapping[int, Any]
    """Broker id → its process."""
    topics: int = 0
    _admin: Any = None

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers.values() if each.bootstrap)

    @property
    def admin(self) -> Any:
        if self._admin is None:
            # Quiet: a broker that a case has killed is no news.
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    @property
    def pid(self) -> int:
        """Of a broker that is alone."""
        (one,) = self.brokers.values()
        return int(one.pid)

    def cpu_seconds(self) -> float:
        return sum(self._running(each).cpu_seconds() for each in self._alive())

    def resident_mb(self) -> float:
        return sum(self._running(each).resident_mb() for each in self._alive())

    def topic(self, partitions: int = 1, copies: int = 1, **config: str) -> str:
        """A new topic; returns once every partition has a leader."""
        self.topics += 1
        name = f"bench-{self.topics}-{time.time_ns()}"
        admin = self.admin
        topic = NewTopic(name, min(partitions, PARTITIONS_AT_ONCE), copies, config=config)
        for future in admin.create_topics([topic], operation_timeout=60).values():
            future.result(ASKED_S)
        for count in range(2 * PARTITIONS_AT_ONCE, partitions + 1, PARTITIONS_AT_ONCE):
            more = NewPartitions(name, count)
            for future in admin.create_partitions([more], operation_timeout=60).values():
                future.result(ASKED_S)
        wait_until(lambda: has_leaders(admin, name, partitions), ASKED_S, f"leaders of {name}")
        return name

    def delete(self, topic: str) -> None:
        """A topic of a case with much data: the next one needs the disk."""
        for future in self.admin.delete_topics([topic], operation_timeout=60).values():
            future.result(ASKED_S)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of its leader, -1 while it has none."""
        return int(self._partition(topic, partition).leader)

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        return sorted(self._partition(topic, partition).isrs)

    def _partition(self, topic: str, partition: int) -> Any:
        return self.admin.list_topics(topic, timeout=30).topics[topic].partitions[partition]

    def address(self, broker_id: int) -> str:
        return str(self.brokers[broker_id].bootstrap)

    def produce(self, topic: str, count: int, size: int, *settings: str) -> dict[str, float]:
        """By librdkafka in a process of its own: seconds, records, bytes."""
        # The client's queue takes as much as a log.
        take_and_free(count * size * (1 + len(self.brokers)) + CLIENT_BYTES)
        arguments = ("produce", self.bootstrap, topic, count, size, *settings)
        done: dict[str, float] = json.loads(client("librdkafka", *arguments))
        return done

    def consume(self, topic: str, count: int, size: int, *settings: str) -> dict[str, float]:
        arguments = ("consume", self.bootstrap, topic, count, size, *settings)
        done: dict[str, float] = json.loads(client("librdkafka", *arguments))
        return done

    def kill(self, broker_id: int) -> None:
        """kill -9; returns once the process is gone."""
        self.brokers[broker_id].kill()

    def _alive(self) -> list[Any]:
        return [each for each in self.brokers.values() if each.alive]

    def _running(self, broker: Any) -> Running:
        return Running(self.name, broker.bootstrap, broker.pid)


def has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    with contextlib.suppress(KafkaException):
        found = admin.list_topics(topic, timeout=30).topics[topic].partitions
        return len(found) == partitions and all(each.leader >= 0 for each in found.values())
    return False


Start = Callable[..., contextlib.AbstractContextManager[Served]]
"""Starts one side in a directory."""


@contextmanager
def our_one(directory: Path, **overrides: object) -> Iterator[Served]:
    with BrokerProcess(directory, **overrides) as broker:
        yield Served(OURS, {1: broker})


@contextmanager
def kafka_one(directory: Path, **_: object) -> Iterator[Served]:
    with ApacheKafka(directory, begins_soon=False) as broker:
        yield Served(KAFKA, {1: broker})


@contextmanager
def our_three(directory: Path, **overrides: object) -> Iterator[Served]:
    settings = {**REPLICATED, **overrides}
    with Cluster(directory, 3, timings=DEFAULT_TIMINGS, **settings) as cluster:
        cluster.wait_settled()
        yield Served(OURS, cluster.brokers)


@contextmanager
def kafka_three(directory: Path, **_: object) -> Iterator[Served]:
    with cluster_of_three(directory, HEAP_OF_THREE) as brokers:
        yield Served(KAFKA, dict(enumerate(brokers, 1)))


def kafka_missing() -> str:
    """Why Apache Kafka cannot be run here; empty when it can."""
    try:
        jars_of(POM, NAME)
    except NoJarsError as error:
        return str(error)
    if not shutil.which("java"):
        return "there is no Java (`java`): install a runtime, 17 or newer, and run this again"
    return ""


@contextmanager
def starters(ours: Start, kafka: Start) -> Iterator[Opened]:
    """Sides that each case starts by itself, in a directory of its own."""
    missing = kafka_missing()
    yield Opened(sides={OURS: ours} | ({} if missing else {KAFKA: kafka}), missing=missing)


@contextmanager
def running(ours: Start, kafka: Start, directory: Path, **overrides: object) -> Iterator[Opened]:
    """Both sides run from the first case to the last, so that they alternate measure by measure;
    the side that waits uses its idle CPU."""
    missing = kafka_missing()
    with ExitStack() as stack:
        sides = {OURS: stack.enter_context(ours(directory / OURS, **overrides))}
        if not missing:
            sides[KAFKA] = stack.enter_context(kafka(directory / KAFKA))
        for served in sides.values():
            warm_up(served)
        yield Opened(sides=sides, missing=missing)


def warm_up(served: Served) -> None:
    """A JVM compiles itself meanwhile, and ours imports what it needs first."""
    topic = served.topic(copies=min(3, len(served.brokers)))
    served.produce(topic, WARM_UP_RECORDS, WARM_UP_SIZE, "acks=all")
    served.consume(topic, WARM_UP_RECORDS, WARM_UP_SIZE)
    address = served.address(served.leader(topic))
    client("load", address, topic, WARM_UP_CONNECTIONS, WARM_UP_S)


def one_each(directory: Path, _: Options) -> contextlib.AbstractContextManager[Opened]:
    return running(our_one, kafka_one, directory, **MANY_CONNECTIONS)


def three_each(directory: Path, _: Options) -> contextlib.AbstractContextManager[Opened]:
    return running(our_three, kafka_three, directory)


def start_one(_: Path, __: Options) -> contextlib.AbstractContextManager[Opened]:
    return starters(our_one, kafka_one)


def start_three(_: Path, __: Options) -> contextlib.AbstractContextManager[Opened]:
    return starters(our_three, kafka_three)
