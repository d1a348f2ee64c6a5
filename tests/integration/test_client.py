"""Our own client against our own broker: every operation, both shells, and a broker that dies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import FetchOptions, Positions
from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.client.io_blocking import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    BlockingClient,
    BlockingProducer,
    NewTopic,
    Policy,
)
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records
from tests.support.broker import START_TIMEOUT_S, BrokerProcess
from tests.support.waiting import wait_until

T0, T1 = (TopicPartition("t", p) for p in range(2))


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("client"))) as process:
        yield process.bootstrap


@pytest.fixture
def client(bootstrap: str) -> Iterator[BlockingClient]:
    """A client of a broker that has the topic `t` with two empty partitions and no other."""
    with BlockingClient(bootstrap) as client:
        client.delete_topics(
            [t.name for t in client.metadata().topics.values() if not t.is_internal]
        )
        client.create_topics([NewTopic("t", 2)])
        yield client


def one_record(value: bytes, timestamp_ms: int = 5) -> bytearray:
    return build_batch([Record(None, value, (), timestamp_ms)])


def read_values(client: BlockingClient, tp: TopicPartition) -> list[bytes | None]:
    """Every value of a partition, in order."""
    positions = Positions()
    positions.assign(tp, 0, client.list_offsets({tp: LATEST})[tp].offset)
    values: list[bytes | None] = []
    while not positions.finished:
        part = client.fetch(positions.wanted())[tp]
        for pos, header in iter_batches(part.records):
            batch = part.records[pos : pos + header.size_bytes]
            values.extend(record.value for record in read_records(batch))
        positions.advance(tp, part.records)
    return values


def test_offsets_are_listed_by_place_and_time(client: BlockingClient) -> None:
    for timestamp_ms in (100, 300, 200):
        client.produce({T0: one_record(b"v", timestamp_ms)})

    def offset(at: int) -> int:
        return client.list_offsets({T0: at})[T0].offset

    assert [offset(at) for at in (EARLIEST, LATEST, MAX_TIMESTAMP)] == [0, 3, 1]
    assert [offset(at) for at in (0, 100, 101, 301)] == [0, 0, 1, -1]


def test_a_fetch_waits_for_a_record_to_come(bootstrap: str, client: BlockingClient) -> None:
    client.partition_count("t")
    found: list[bytes] = []

    def wait() -> None:
        with BlockingClient(bootstrap) as other:
            part = other.fetch({T0: 0}, max_wait_ms=120_000)[T0]
            found.append(bytes(part.records))

    thread = threading.Thread(target=wait)
    thread.start()
    client.produce({T0: one_record(b"awaited")})
    thread.join(60)

    assert not thread.is_alive()
    assert len(found) == 1
    assert b"awaited" in found[0]


def test_group_offsets_are_kept_per_partition(client: BlockingClient) -> None:
    assert client.committed_offsets("new-group", [T0, T1]) == {}

    client.commit_offsets("a-group", {T0: 3})
    client.commit_offsets("a-group", {T1: 5})

    assert client.committed_offsets("a-group", [T0, T1]) == {T0: 3, T1: 5}


def test_topics_are_widened_configured_and_trimmed(client: BlockingClient) -> None:
    client.produce({T0: one_record(b"v")})

    client.create_partitions({"t": 4})
    client.alter_configs({"t": {"retention.ms": "123456"}})
    low_watermarks = client.delete_records({T0: 1})

    assert client.partition_count("t") == 4
    entry = client.describe_configs(["t"])["t"]["retention.ms"]
    assert (entry.value, entry.is_default) == ("123456", False)
    assert low_watermarks == {T0: 1}
    assert client.fetch({T0: 0})[T0].error_code is ErrorCode.offset_out_of_range
    client.alter_configs({"t": {"retention.ms": None}})
    assert client.describe_configs(["t"])["t"]["retention.ms"].is_default


def test_a_repeated_batch_is_stored_once(client: BlockingClient) -> None:
    identity = client.init_producer_id()
    batch = build_batch(
        [Record(None, b"once", (), 5)],
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=0,
    )

    first = client.produce({T0: bytes(batch)})
    second = client.produce({T0: bytes(batch)})

    assert (first, second) == ({T0: 0}, {T0: 0})
    assert read_values(client, T0) == [b"once"]


def test_a_topic_made_anew_under_its_old_name_is_found(client: BlockingClient) -> None:
    client.produce({T0: one_record(b"old")})
    client.delete_topics(["t"])
    client.create_topics([NewTopic("t", 2)])

    client.produce({T0: one_record(b"new")})

    assert read_values(client, T0) == [b"new"]


def test_a_topic_made_anew_by_another_client_is_found(
    bootstrap: str, client: BlockingClient
) -> None:
    client.produce({T0: one_record(b"old")})
    with BlockingClient(bootstrap) as other:
        other.delete_topics(["t"])
        other.create_topics([NewTopic("t", 2)])

    client.produce({T0: one_record(b"new")})

    assert read_values(client, T0) == [b"new"]


def test_metadata_of_a_topic_that_is_not_there_carries_its_error(client: BlockingClient) -> None:
    topic = client.metadata(["absent"]).topics["absent"]

    assert topic.error_code is ErrorCode.unknown_topic_or_partition
    with pytest.raises(KafkaError, match="topic 'absent' does not exist"):
        client.partition_count("absent")


def test_tasks_of_one_asyncio_client_work_at_the_same_time(
    bootstrap: str, client: BlockingClient
) -> None:
    client.partition_count("t")

    async def scenario() -> None:
        async with AsyncClient(bootstrap) as shared, asyncio.timeout(60):
            # Who leads is known now: a question about it would be answered behind the long poll.
            await shared.list_offsets({T0: LATEST, T1: LATEST})
            patient = FetchOptions(max_wait_ms=120_000)
            waiting = asyncio.ensure_future(shared.fetch({T1: 0}, patient))
            written = await asyncio.gather(
                *(shared.produce({TopicPartition("t", n % 2): one_record(b"v")}) for n in range(40))
            )
            assert sorted(o for d in written for o in d.values()) == sorted([*range(20)] * 2)
            assert (await waiting)[T1].records
            assert (await shared.list_offsets({T0: LATEST}))[T0].offset == 20
            await shared.commit_offsets("async", {T0: 20})
            assert await shared.committed_offsets("async", [T0]) == {T0: 20}

    asyncio.run(scenario())


def test_an_idempotent_producer_outlives_kill_9_without_loss_or_duplicates(
    tmp_path: Path,
) -> None:
    """Writes go on through two crashes; each acknowledged or not, every record is there once."""
    patient = Policy(request_timeout_ms=int(2_000 * START_TIMEOUT_S))
    with (
        BrokerProcess(tmp_path) as broker,
        BlockingClient(broker.bootstrap, policy=patient) as client,
    ):
        client.create_topics([NewTopic("t", 2)])
        producer = BlockingProducer(client, batch_bytes_max=2_000, buffer_bytes_max=8_000)
        sent = 0
        for crash in range(2):
            for _ in range(3_000):
                producer.send("t", None, b"%d" % sent, partition=sent % 2)
                sent += 1
            killer = threading.Thread(target=lambda: (broker.kill(), broker.start()))
            killer.start()
            while killer.is_alive():
                producer.send("t", None, b"%d" % sent, partition=sent % 2)
                sent += 1
            killer.join()
            wait_until(lambda: broker.alive, 10, f"the broker after crash {crash}")
        producer.flush()

        assert sum(d.record_count for d in producer.delivered.values()) == sent
        for partition in (0, 1):
            values = read_values(client, TopicPartition("t", partition))
            assert [int(v or b"") for v in values] == list(range(partition, sent, 2))
