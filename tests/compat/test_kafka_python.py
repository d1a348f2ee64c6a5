"""kafka-python 3 against our broker: what it writes, reads and administers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import (
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
)

from tests.compat.brokers import told
from tests.compat.samples import (
    BASE_MS,
    COMPRESSIONS,
    FIVE_MEGABYTES,
    LARGE_CONFIG,
    Sample,
)
from tests.compat.samples import PYTHON_SAMPLES as SAMPLES

Topics = Callable[..., str]
TIMEOUT_S = 90.0

LIBRARIES = {"snappy": "snappy", "lz4": "lz4.frame", "zstd": "zstandard"}
"""What kafka-python needs for a compression."""


def produce_all(
    bootstrap: str, topic: str, samples: Iterable[Sample], partition: int = 0, **options: Any
) -> list[int]:
    """Write samples; their offsets."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, **options)
    try:
        futures = [
            producer.send(
                topic,
                value=s.value,
                key=s.key,
                partition=partition,
                timestamp_ms=s.timestamp_ms,
                headers=list(s.headers),
            )
            for s in samples
        ]
        producer.flush(timeout=TIMEOUT_S)
        return [future.get(timeout=TIMEOUT_S).offset for future in futures]
    finally:
        producer.close(timeout=TIMEOUT_S)


def consume(
    bootstrap: str, topic: str, count: int, partitions: tuple[int, ...] = (0,), **options: Any
) -> list[Any]:
    """`count` records of assigned partitions from their beginning, without a group."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **options)
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, p) for p in partitions])
        consumer.seek_to_beginning()
        while len(records) < count:
            assert time.monotonic() < deadline, f"{len(records)} of {count} records in time"
            for polled in consumer.poll(timeout_ms=500).values():
                records.extend(polled)
    finally:
        consumer.close()
    return records


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_kafka_python_wrote_them(
    bootstrap: str, make_topic: Topics, compression: str
) -> None:
    """Checklist row 22."""
    if compression in LIBRARIES:
        pytest.importorskip(LIBRARIES[compression], reason=f"kafka-python[{compression}]")
    topic = make_topic()
    codec = None if compression == "none" else compression

    offsets = produce_all(bootstrap, topic, SAMPLES, compression_type=codec)
    records = consume(bootstrap, topic, len(SAMPLES))

    assert offsets == list(range(len(SAMPLES)))
    read = [Sample(r.key, r.value, tuple(r.headers), r.timestamp) for r in records]
    assert read == list(SAMPLES)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_writes(bootstrap: str, make_topic: Topics, acks: Any) -> None:
    topic = make_topic()

    produce_all(bootstrap, topic, SAMPLES, acks=acks, enable_idempotence=False)

    assert len(consume(bootstrap, topic, len(SAMPLES))) == len(SAMPLES)


def test_five_megabyte_record_when_the_topic_allows_it(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic(**LARGE_CONFIG)
    large = SAMPLES[0]._replace(value=os.urandom(FIVE_MEGABYTES))

    produce_all(bootstrap, topic, [large], max_request_size=6_000_000)
    (record,) = consume(bootstrap, topic, 1)

    assert record.value == large.value


def test_record_larger_than_the_topic_allows_is_refused_with_message_too_large(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic()
    large = SAMPLES[0]._replace(value=os.urandom(FIVE_MEGABYTES))

    with pytest.raises(MessageSizeTooLargeError):
        produce_all(bootstrap, topic, [large], max_request_size=6_000_000)


def test_offsets_are_found_by_time(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()
    times = [SAMPLES[0]._replace(timestamp_ms=BASE_MS + 10 * i) for i in range(50)]
    produce_all(bootstrap, topic, times, batch_size=300)
    tp = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        found = consumer.offsets_for_times({tp: BASE_MS + 205})[tp]

        assert (found.offset, found.timestamp) == (21, BASE_MS + 210)
        assert consumer.offsets_for_times({tp: BASE_MS + 500})[tp] is None
        assert consumer.beginning_offsets([tp])[tp] == 0
        assert consumer.end_offsets([tp])[tp] == 50
    finally:
        consumer.close()


def test_admin_creates_widens_configures_trims_and_deletes_topics(
    bootstrap: str, make_topic: Topics
) -> None:
    """Checklist row 21."""
    topic = make_topic() + "-admin"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def config(name: str) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        described = admin.describe_configs([resource], config_filter="all")
        return described["topic"][topic][name]

    def names() -> set[str]:
        return {t if isinstance(t, str) else t["name"] for t in admin.list_topics()}

    try:
        new = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "123456"})
        admin.create_topics([new])
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([new])
        admin.create_partitions({topic: 4})
        told(lambda: len(admin.describe_topics([topic])[0]["partitions"]), 4)
        assert config("retention.ms")["value"] == "123456"
        admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "654321"})]
        )
        told(lambda: config("retention.ms")["value"], "654321")
        produce_all(bootstrap, topic, SAMPLES)
        tp = TopicPartition(topic, 0)
        assert admin.delete_records({tp: 4})[tp]["low_watermark"] == 4
        admin.delete_topics([topic])
        told(lambda: topic in names(), False)
    finally:
        admin.close()


def test_assigned_partitions_are_read_from_where_they_are_sought(
    bootstrap: str, make_topic: Topics
) -> None:
    """Checklist row 25: without a group."""
    topic = make_topic(partitions=2)
    samples = [Sample(None, f"{n}".encode()) for n in range(10)]
    for partition in range(2):
        produce_all(bootstrap, topic, samples, partition)
    wanted = {TopicPartition(topic, 0): range(7, 10), TopicPartition(topic, 1): range(2, 10)}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        consumer.assign(list(wanted))
        for tp, offsets in wanted.items():
            consumer.seek(tp, offsets[0])
        read: dict[TopicPartition, list[int]] = {tp: [] for tp in wanted}
        deadline = time.monotonic() + TIMEOUT_S
        while sum(map(len, read.values())) < 11:
            assert time.monotonic() < deadline, read
            for tp, polled in consumer.poll(timeout_ms=500).items():
                read[tp] += [each.offset for each in polled]
    finally:
        consumer.close()

    assert read == {tp: list(offsets) for tp, offsets in wanted.items()}


def test_offsets_are_committed_and_fetched_without_members(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic()
    tp = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=f"group-of-{topic}", enable_auto_commit=False
    )
    try:
        consumer.assign([tp])
        consumer.seek(tp, 7)

        consumer.commit(timeout_ms=60_000)

        assert consumer.committed(tp) == 7
    finally:
        consumer.close()


@pytest.mark.parametrize("api_version", [(0, 11), (1, 1), (2, 1), (2, 8), (3, 9)])
def test_older_protocol_versions_write_and_read(
    bootstrap: str, make_topic: Topics, api_version: tuple[int, ...]
) -> None:
    """kafka-python told that the broker is an old Kafka sends that Kafka's message versions."""
    topic = make_topic()
    tp = TopicPartition(topic, 0)

    produce_all(
        bootstrap, topic, SAMPLES, enable_idempotence=False, acks=1, api_version=api_version
    )
    records = consume(bootstrap, topic, len(SAMPLES), api_version=api_version)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, api_version=api_version)
    try:
        found = consumer.offsets_for_times({tp: BASE_MS})[tp]
    finally:
        consumer.close()

    assert [r.value for r in records] == [s.value for s in SAMPLES]
    assert found.offset == 0
