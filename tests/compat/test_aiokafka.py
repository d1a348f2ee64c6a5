"""aiokafka against our broker: what it writes, reads and administers."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
)

from tests.compat.brokers import Broker, told_async
from tests.compat.samples import (
    BASE_MS,
    COMPRESSIONS,
    FIVE_MEGABYTES,
    LARGE_CONFIG,
    Sample,
)
from tests.compat.samples import PYTHON_SAMPLES as SAMPLES

Topics = Callable[..., str]
T = TypeVar("T")
TIMEOUT_S = 90.0


def within_limit(awaitable: Awaitable[T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(TIMEOUT_S):
            return await awaitable

    return asyncio.run(limited())


async def produce_all(
    bootstrap: str, topic: str, samples: tuple[Sample, ...], **options: Any
) -> list[int]:
    """Write samples to partition 0; their offsets."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **options)
    await producer.start()
    try:
        futures = [
            await producer.send(
                topic,
                value=s.value,
                key=s.key,
                partition=0,
                timestamp_ms=s.timestamp_ms,
                headers=list(s.headers),
            )
            for s in samples
        ]
        return [metadata.offset for metadata in await asyncio.gather(*futures)]
    finally:
        await producer.stop()


async def consume(bootstrap: str, topic: str, count: int, **options: Any) -> list[Any]:
    """`count` records of partition 0 from its beginning, without a group."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, **options)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        return [await consumer.getone() for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_aiokafka_wrote_them(
    bootstrap: str, make_topic: Topics, compression: str
) -> None:
    """Checklist row 22."""
    topic = make_topic()
    codec = None if compression == "none" else compression

    async def scenario() -> list[Any]:
        await produce_all(bootstrap, topic, SAMPLES, compression_type=codec)
        return await consume(bootstrap, topic, len(SAMPLES))

    records = within_limit(scenario())

    read = [Sample(r.key, r.value, tuple(r.headers), r.timestamp) for r in records]
    assert read == list(SAMPLES)


def test_idempotent_producer_keeps_order_and_writes_once(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic()
    samples = tuple(SAMPLES[0]._replace(value=b"%d" % i) for i in range(2_000))

    async def scenario() -> tuple[list[int], list[Any]]:
        offsets = await produce_all(
            bootstrap, topic, samples, enable_idempotence=True, max_batch_size=2_000
        )
        return offsets, await consume(bootstrap, topic, len(samples))

    offsets, records = within_limit(scenario())

    assert offsets == list(range(2_000))
    assert [r.value for r in records] == [s.value for s in samples]


def test_five_megabyte_record_when_the_topic_allows_it(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic(**LARGE_CONFIG)
    large = SAMPLES[0]._replace(value=os.urandom(FIVE_MEGABYTES))

    async def scenario() -> list[Any]:
        await produce_all(bootstrap, topic, (large,), max_request_size=6_000_000)
        return await consume(bootstrap, topic, 1, max_partition_fetch_bytes=6_000_000)

    (record,) = within_limit(scenario())

    assert record.value == large.value


def test_record_larger_than_the_topic_allows_is_refused_with_message_too_large(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic()
    large = SAMPLES[0]._replace(value=os.urandom(FIVE_MEGABYTES))

    with pytest.raises(MessageSizeTooLargeError):
        within_limit(produce_all(bootstrap, topic, (large,), max_request_size=6_000_000))


def test_offsets_are_found_by_time(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()
    times = tuple(SAMPLES[0]._replace(timestamp_ms=BASE_MS + 10 * i) for i in range(50))
    tp = TopicPartition(topic, 0)

    async def scenario() -> tuple[Any, ...]:
        await produce_all(bootstrap, topic, times, max_batch_size=300)
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            return (
                (await consumer.offsets_for_times({tp: BASE_MS + 205}))[tp].offset,
                (await consumer.offsets_for_times({tp: BASE_MS + 500}))[tp],
                (await consumer.beginning_offsets([tp]))[tp],
                (await consumer.end_offsets([tp]))[tp],
            )
        finally:
            await consumer.stop()

    assert within_limit(scenario()) == (21, None, 0, 50)


def test_admin_creates_widens_configures_trims_and_deletes_topics(
    bootstrap: str, make_topic: Topics
) -> None:
    """Checklist row 21."""
    topic = make_topic() + "-admin"
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)

    async def config(admin: AIOKafkaAdminClient, name: str) -> str:
        (response,) = await admin.describe_configs([resource])
        return next(c[1] for c in response.resources[0][4] if c[0] == name)

    async def partitions(admin: AIOKafkaAdminClient) -> int:
        (described,) = await admin.describe_topics([topic])
        return len(described["partitions"])

    async def is_there(admin: AIOKafkaAdminClient) -> bool:
        return topic in await admin.list_topics()

    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            new = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "123456"})
            await admin.create_topics([new])
            with pytest.raises(TopicAlreadyExistsError):
                _raise_first(await admin.create_topics([new]))
            await admin.create_partitions({topic: NewPartitions(4)})
            await told_async(partial(partitions, admin), 4)
            assert await config(admin, "retention.ms") == "123456"
            change = ConfigResource(
                ConfigResourceType.TOPIC, topic, configs={"retention.ms": "654321"}
            )
            await admin.alter_configs([change])
            await told_async(partial(config, admin, "retention.ms"), "654321")
            await produce_all(bootstrap, topic, SAMPLES)
            tp = TopicPartition(topic, 0)
            assert await admin.delete_records({tp: RecordsToDelete(4)}) == {tp: 4}
            await admin.delete_topics([topic])
            await told_async(partial(is_there, admin), False)
        finally:
            await admin.close()

    within_limit(scenario())


def _raise_first(response: Any) -> None:
    from aiokafka.errors import for_code

    for error in response.topic_errors:
        if error[1]:
            raise for_code(error[1])


def test_offsets_are_committed_and_fetched_without_members(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic()
    tp = TopicPartition(topic, 0)

    async def scenario() -> int | None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=f"group-of-{topic}", enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([tp])
            await consumer.commit({tp: 7})
            return await consumer.committed(tp)
        finally:
            await consumer.stop()

    assert within_limit(scenario()) == 7


@pytest.mark.parametrize(
    ("refused", "settings"),
    [
        (InvalidGroupIdError, {"group_id": ""}),
        (InvalidSessionTimeoutError, {"group_id": "short", "session_timeout_ms": 1_000}),
    ],
)
def test_refused_subscription_is_told_and_does_not_spin(
    broker: Broker, make_topic: Topics, refused: type[KafkaError], settings: dict[str, Any]
) -> None:
    """It asks again without a pause, and without a word, where a broker does not list JoinGroup, or
    answers UNKNOWN_MEMBER_ID; these answers it shows."""
    topic = make_topic()
    before = joins(broker)

    async def scenario() -> None:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, **settings)
        try:
            await consumer.start()
        finally:
            await consumer.stop()

    with pytest.raises(refused):
        within_limit(scenario())

    assert joins(broker) - before <= 2


def joins(broker: Broker) -> int:
    """JoinGroup requests that the broker had so far."""
    pattern = r'josefine_request_seconds_count\{api="JoinGroup"\} (\d+)'
    found = re.search(pattern, broker.get("/metrics")[1])
    return int(found[1]) if found else 0
