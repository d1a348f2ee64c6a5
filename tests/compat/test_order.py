"""A hundred thousand records over four partitions, written by one client and read by another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from kafka import KafkaProducer

from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer
from tests.compat import test_confluent_kafka as confluent
from tests.compat import test_kafka_python as kafka_python
from tests.compat.foreign import franz
from tests.compat.samples import BASE_MS, Sample

Topics = Callable[..., str]
RECORDS = 100_000
PARTITIONS = 4


def assert_all_in_order(read: Iterable[tuple[int, int, bytes]]) -> None:
    """(partition, offset, value): each partition holds its own numbers, in order, without a gap."""
    values: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
    offsets: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
    for partition, offset, value in read:
        values[partition].append(int(value))
        offsets[partition].append(offset)
    for partition in range(PARTITIONS):
        assert offsets[partition] == list(range(RECORDS // PARTITIONS))
        assert values[partition] == list(range(partition, RECORDS, PARTITIONS))


def kafka_python_writes(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    for n in range(RECORDS):
        producer.send(topic, value=b"%d" % n, partition=n % PARTITIONS)
    producer.flush(timeout=120)
    producer.close(timeout=60)


def test_librdkafka_writes_and_kafka_python_reads_100k_in_order(
    bootstrap: str, make_topic: Topics
) -> None:
    """Checklist row 28."""
    topic = make_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        numbers = range(partition, RECORDS, PARTITIONS)
        samples = (Sample(None, b"%d" % n, (), BASE_MS) for n in numbers)
        confluent.produce_all(
            bootstrap, topic, samples, partition, **{"enable.idempotence": True, "linger.ms": 5}
        )

    records = kafka_python.consume(bootstrap, topic, RECORDS, tuple(range(PARTITIONS)))

    assert_all_in_order((r.partition, r.offset, r.value) for r in records)


def test_kafka_python_writes_and_librdkafka_reads_100k_in_order(
    bootstrap: str, make_topic: Topics
) -> None:
    """Checklist row 28."""
    topic = make_topic(PARTITIONS)
    kafka_python_writes(bootstrap, topic)

    messages = confluent.consume(bootstrap, topic, RECORDS, tuple(range(PARTITIONS)))

    assert_all_in_order((m.partition(), m.offset(), m.value()) for m in messages)


def test_our_producer_writes_and_librdkafka_reads_100k_in_order(
    bootstrap: str, client: BlockingClient, make_topic: Topics
) -> None:
    """Checklist row 28."""
    topic = make_topic(PARTITIONS)
    producer = BlockingProducer(client, batch_bytes_max=16_384)
    for n in range(RECORDS):
        producer.send(topic, None, b"%d" % n, partition=n % PARTITIONS)
    producer.flush()

    messages: list[Any] = confluent.consume(bootstrap, topic, RECORDS, tuple(range(PARTITIONS)))

    assert_all_in_order((m.partition(), m.offset(), m.value()) for m in messages)


@pytest.mark.slow
def test_franz_go_writes_and_kafka_python_reads_100k_in_order(
    bootstrap: str, make_topic: Topics
) -> None:
    """Checklist row 28."""
    topic = make_topic(PARTITIONS)
    franz("write", bootstrap, topic, str(RECORDS), str(PARTITIONS))

    records = kafka_python.consume(bootstrap, topic, RECORDS, tuple(range(PARTITIONS)))

    assert_all_in_order((r.partition, r.offset, r.value) for r in records)


@pytest.mark.slow
def test_kafka_python_writes_and_franz_go_reads_100k_in_order(
    bootstrap: str, make_topic: Topics
) -> None:
    """Checklist row 28."""
    topic = make_topic(PARTITIONS)
    kafka_python_writes(bootstrap, topic)

    records = franz("read", bootstrap, topic, str(RECORDS))

    assert_all_in_order((partition, offset, value.encode()) for partition, offset, value in records)
