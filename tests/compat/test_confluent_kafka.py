"""confluent-kafka (librdkafka) against our broker: what it writes, reads and administers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat.brokers import told
from tests.compat.samples import (
    BASE_MS,
    COMPRESSIONS,
    FIVE_MEGABYTES,
    LARGE_CONFIG,
    SAMPLES,
)

Topics = Callable[..., str]
TIMEOUT_S = 90.0


def produce_all(
    bootstrap: str, topic: str, samples: Any, partition: int = 0, **options: Any
) -> list[Message]:
    """Write samples; the delivery reports, each without error."""
    reports: list[Message] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            reports.append(message)
        else:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, **options})
    for s in samples:
        while True:
            try:
                producer.produce(
                    topic,
                    value=s.value,
                    key=s.key,
                    partition=partition,
                    timestamp=s.timestamp_ms,
                    headers=list(s.headers),
                    on_delivery=delivered,
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0, "not everything was delivered in time"
    assert not failures, failures[0]
    return reports


def consumer_for(bootstrap: str, **options: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            **options,
        }
    )


def consume(
    bootstrap: str, topic: str, count: int, partitions: tuple[int, ...] = (0,), **options: Any
) -> list[Message]:
    """`count` messages of assigned partitions from their beginning."""
    consumer = consumer_for(bootstrap, **options)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    messages: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while len(messages) < count:
            assert time.monotonic() < deadline, f"{len(messages)} of {count} messages in time"
            for message in consumer.consume(count - len(messages), timeout=1.0):
                assert message.error() is None, message.error()
                messages.append(message)
    finally:
        consumer.close()
    return messages


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_librdkafka_wrote_them(
    bootstrap: str, make_topic: Topics, compression: str
) -> None:
    """Checklist row 22."""
    topic = make_topic()

    produce_all(bootstrap, topic, SAMPLES, **{"compression.type": compression})
    messages = consume(bootstrap, topic, len(SAMPLES))

    read = [(m.key(), m.value(), tuple(m.headers() or ()), m.timestamp()[1]) for m in messages]
    assert read == [(s.key, s.value, s.headers, s.timestamp_ms) for s in SAMPLES]
    assert [m.offset() for m in messages] == list(range(len(SAMPLES)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_writes(bootstrap: str, make_topic: Topics, acks: str) -> None:
    topic = make_topic()

    produce_all(bootstrap, topic, SAMPLES, acks=acks)

    assert len(consume(bootstrap, topic, len(SAMPLES))) == len(SAMPLES)


def test_idempotent_producer_writes_each_record_once_over_many_batches(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic()
    samples = [SAMPLES[0]._replace(value=b"%d" % i) for i in range(5_000)]

    reports = produce_all(
        bootstrap,
        topic,
        samples,
        **{"enable.idempotence": True, "batch.num.messages": 100, "linger.ms": 1},
    )

    assert sorted(m.offset() for m in reports) == list(range(5_000))
    messages = consume(bootstrap, topic, 5_000)
    assert [m.value() for m in messages] == [s.value for s in samples]


def test_five_megabyte_record_when_the_topic_allows_it(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic(**LARGE_CONFIG)
    large = SAMPLES[0]._replace(value=os.urandom(FIVE_MEGABYTES))

    produce_all(bootstrap, topic, [large], **{"message.max.bytes": 6_000_000})
    (message,) = consume(bootstrap, topic, 1)

    assert message.value() == large.value


def test_record_larger_than_the_topic_allows_is_refused_with_message_too_large(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic()
    large = SAMPLES[0]._replace(value=os.urandom(FIVE_MEGABYTES))

    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        produce_all(bootstrap, topic, [large], **{"message.max.bytes": 6_000_000})


def test_offsets_are_found_by_time(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()
    times = [SAMPLES[0]._replace(timestamp_ms=BASE_MS + 10 * i) for i in range(100)]
    produce_all(bootstrap, topic, times, **{"batch.num.messages": 7})
    consumer = consumer_for(bootstrap)

    def offset_at(timestamp_ms: int) -> int:
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], TIMEOUT_S)
        return int(found.offset)

    try:
        assert offset_at(0) == 0
        assert offset_at(BASE_MS + 500) == 50
        assert offset_at(BASE_MS + 501) == 51
        assert offset_at(BASE_MS + 10_000) == -1
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 100)
    finally:
        consumer.close()


def test_largest_timestamp_is_found(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()
    produce_all(bootstrap, topic, SAMPLES)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    futures = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()})
    (result,) = [future.result(TIMEOUT_S) for future in futures.values()]

    assert (result.offset, result.timestamp) == (8, BASE_MS + 8)


def test_admin_creates_widens_configures_and_deletes_topics(
    bootstrap: str, make_topic: Topics
) -> None:
    """Checklist row 21."""
    topic = make_topic() + "-admin"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new_topic = NewTopic(topic, 2, 1, config={"retention.ms": "123456"})
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def run(futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result(TIMEOUT_S)

    run(admin.create_topics([new_topic]))
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        run(admin.create_topics([new_topic]))
    run(admin.create_partitions([NewPartitions(topic, 5)]))
    told(lambda: len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions), 5)
    assert run(admin.describe_configs([resource]))["retention.ms"].value == "123456"
    change = ConfigEntry("retention.ms", "654321", incremental_operation=AlterConfigOpType.SET)
    incremental = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    run(admin.incremental_alter_configs([incremental]))
    told(lambda: run(admin.describe_configs([resource]))["retention.ms"].value, "654321")
    run(admin.delete_topics([topic]))
    told(lambda: topic in admin.list_topics(timeout=TIMEOUT_S).topics, False)


def test_admin_deletes_records_below_an_offset(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()
    produce_all(bootstrap, topic, SAMPLES)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    futures = admin.delete_records([TopicPartition(topic, 0, 4)])
    (deleted,) = [future.result(TIMEOUT_S) for future in futures.values()]

    assert deleted.low_watermark == 4
    assert [m.offset() for m in consume(bootstrap, topic, 6)] == [4, 5, 6, 7, 8, 9]


def test_offsets_are_committed_and_fetched_without_members(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic(2)
    consumer = consumer_for(bootstrap, **{"group.id": f"group-of-{topic}"})
    wanted = [TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 9)]
    try:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])

        consumer.commit(offsets=wanted, asynchronous=False)
        found = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], TIMEOUT_S)

        assert [(tp.partition, tp.offset) for tp in found] == [(0, 7), (1, 9)]
    finally:
        consumer.close()
