"""Transactions of three clients, on one broker and on three of which one is killed (KIP-98).

What is counted is what read_committed sees; every wait is for a condition with a deadline.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import closing

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.engine.groups.offsets import coordinator_partition
from tests.compat.coordinators import daily_is, kept_by
from tests.compat.tellers import TELLERS
from tests.support.cluster import REPLICATED, Cluster
from tests.support.fixtures import cluster_fixture

TIMEOUT_S = 90.0
"""Of one condition, on a machine that others use too; a second where it is idle."""
pytestmark = pytest.mark.timeout(400)
TRANSACTIONS_TOPIC = "__transaction_state"
_NUMBERS = itertools.count(1)


cluster = cluster_fixture(**REPLICATED)


def make_topic(bootstrap: str, partitions: int = 2, replicas: int = 1) -> str:
    name = f"transactions-{next(_NUMBERS)}"
    with BlockingClient(bootstrap) as client:
        client.create_topics([NewTopic(name, partitions, replicas)])
    return name


def new_producer(bootstrap: str, transactional_id: str, **config: object) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def write(producer: Producer, topic: str, values: set[str]) -> None:
    for at, value in enumerate(sorted(values)):
        producer.produce(topic, value.encode(), partition=at % 2)


def values_of(
    bootstrap: str, topic: str, count: int, isolation: str = "read_committed"
) -> list[str]:
    """What a reader sees, from the beginning, until it has so many; sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    found: list[str] = []
    with closing(consumer):
        consumer.assign([TopicPartition(topic, each, 0) for each in range(2)])
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append(message.value().decode())
    return sorted(found)


def test_committed_is_seen_and_aborted_is_not(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    producer = new_producer(bootstrap, topic)
    for name, is_commit in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        write(producer, topic, {f"{name}{each}" for each in range(4)})
        if is_commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)

    committed = values_of(bootstrap, topic, 8)

    assert committed == [f"{name}{each}" for name in "ac" for each in range(4)]
    assert len(values_of(bootstrap, topic, 12, "read_uncommitted")) == 12


def test_successor_aborts_and_fences_the_producer_before_it(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    old = new_producer(bootstrap, topic)
    old.begin_transaction()
    write(old, topic, {"lost0", "lost1"})
    old.flush(TIMEOUT_S)

    new = new_producer(bootstrap, topic)
    new.begin_transaction()
    write(new, topic, {"kept0", "kept1"})
    new.commit_transaction(TIMEOUT_S)

    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal(), fenced.value
    assert values_of(bootstrap, topic, 2) == ["kept0", "kept1"]


def test_transaction_that_outlasts_its_timeout_is_aborted(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    producer = new_producer(bootstrap, topic, transaction_timeout_ms=1_000, message_timeout_ms=900)
    producer.begin_transaction()
    write(producer, topic, {"late0", "late1"})
    producer.flush(TIMEOUT_S)
    other = new_producer(bootstrap, f"{topic}-other")
    other.begin_transaction()
    write(other, topic, {"kept0", "kept1"})
    other.commit_transaction(TIMEOUT_S)

    assert values_of(bootstrap, topic, 2) == ["kept0", "kept1"], "nobody waits for ever"
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)


def test_offsets_are_committed_with_what_is_made_of_the_records(bootstrap: str) -> None:
    """Consume, transform, produce: exactly once, though the first attempt is given up."""
    source, target = make_topic(bootstrap), make_topic(bootstrap)
    feeding = Producer({"bootstrap.servers": bootstrap})
    write(feeding, source, {f"r{each}" for each in range(10)})
    feeding.flush(TIMEOUT_S)
    producer = new_producer(bootstrap, target)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": target,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    with closing(consumer):
        consumer.subscribe([source])
        for is_commit in (False, True):
            producer.begin_transaction()
            taken = 0
            deadline = time.monotonic() + TIMEOUT_S
            while taken < 10 and time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    taken += 1
                    producer.produce(target, message.value().upper(), partition=taken % 2)
            assert taken == 10
            positions = consumer.position(consumer.assignment())
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(positions, metadata, TIMEOUT_S)
            if is_commit:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)
                parts = [TopicPartition(source, each) for each in range(2)]
                for found in consumer.committed(parts, TIMEOUT_S):
                    assert found.offset < 0, "the offsets of an aborted transaction count"
                    consumer.seek(TopicPartition(source, found.partition, 0))
        found = consumer.committed([TopicPartition(source, each) for each in range(2)], TIMEOUT_S)

    assert sum(each.offset for each in found) == 10
    assert values_of(bootstrap, target, 10) == sorted(f"R{each}" for each in range(10))


def test_aiokafka_commits_and_aborts(bootstrap: str) -> None:
    topic = make_topic(bootstrap)

    async def scenario() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept", partition=0)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"lost", partition=1)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept too", partition=1)
        finally:
            await producer.stop()

    asyncio.run(scenario())

    assert values_of(bootstrap, topic, 2) == ["kept", "kept too"]


def test_kafka_python_commits_and_aborts(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    try:
        producer.init_transactions()
        for value, is_commit in ((b"kept", True), (b"lost", False), (b"kept too", True)):
            producer.begin_transaction()
            producer.send(topic, value, partition=0).get(TIMEOUT_S)
            if is_commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(timeout=5)

    assert values_of(bootstrap, topic, 2) == ["kept", "kept too"]


def test_transactions_outlive_their_coordinator(cluster: Cluster) -> None:
    """It is killed while one is open, and again right behind a decision."""
    topic = make_topic(cluster.bootstrap, replicas=3)
    producer = new_producer(cluster.bootstrap, topic)
    index = coordinator_partition(topic, 8)
    wanted: set[str] = set()
    for at in range(2):
        producer.begin_transaction()
        values = {f"{at}-{each}" for each in range(4)}
        write(producer, topic, values)
        producer.flush(TIMEOUT_S)
        if at == 1:
            producer.commit_transaction(TIMEOUT_S)  # its markers may be on their way
        killed = cluster.leader_of(TRANSACTIONS_TOPIC, index)
        cluster.kill(killed)
        try:
            if at == 0:
                producer.commit_transaction(TIMEOUT_S)
            wanted |= values
            left = ",".join(cluster.broker(id_).bootstrap for id_ in cluster.alive)
            assert values_of(left, topic, len(wanted)) == sorted(wanted)
        finally:
            cluster.restart(killed)
            cluster.wait_settled()


@pytest.mark.slow
@pytest.mark.parametrize("client", TELLERS)
def test_transactions_outlive_the_leader(cluster: Cluster, client: str) -> None:
    """It leads a partition that one is open in; another broker coordinates."""
    outlive_leader(cluster, client, coordinates=False)


@pytest.mark.parametrize("client", daily_is("librdkafka", *TELLERS))
def test_transactions_outlive_a_leader_that_coordinates(cluster: Cluster, client: str) -> None:
    if client == "kafka-python":
        pytest.skip(
            "kafka-python forgets to end a transaction whose coordinator refuses connections"
        )
    outlive_leader(cluster, client, coordinates=True)


def outlive_leader(cluster: Cluster, client: str, *, coordinates: bool) -> None:
    """It is killed while a transaction is open, which goes on and is committed; then one is aborted
    and the next one counts."""
    topic = make_topic(cluster.bootstrap, replicas=3)
    new_producer(cluster.bootstrap, topic)  # the first makes the coordinators' topic
    id_, index = kept_by(cluster, TRANSACTIONS_TOPIC, topic, 2, by_leader=coordinates)
    with closing(TELLERS[client](cluster.bootstrap, id_, topic)) as teller:
        teller.begin()
        teller.send(0, "a0")
        teller.send(1, "a1")
        killed = cluster.leader_of(topic, index)
        cluster.kill(killed)
        try:
            teller.send(0, "a2")
            teller.send(1, "a3")
            teller.commit()
            for name, end in (("b", teller.abort), ("c", teller.commit)):
                teller.begin()
                for each in range(4):
                    teller.send(each % 2, f"{name}{each}")
                end()
            left = ",".join(cluster.broker(id_).bootstrap for id_ in cluster.alive)
            wanted = [f"{name}{each}" for name in "ac" for each in range(4)]
            assert values_of(left, topic, 8) == wanted
        finally:
            cluster.restart(killed)
            cluster.wait_settled()
