"""`josefine mirror` between two real brokers: the same batches at the same offsets."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.batch import iter_batches
from tests.support.cli import josefine
from tests.support.fixtures import broker_fixture

WAIT_S = 60.0

source = broker_fixture(group__initial_rebalance_delay_ms=0)
target = broker_fixture(group__initial_rebalance_delay_ms=0)


def create(broker: Any, topic: str, partitions: int = 1, **configs: str) -> None:
    named = {name.replace("__", "."): each for name, each in configs.items()}
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(topic, partitions, configs=named)])
        client.partition_count(topic)


def send(broker: Any, topic: str, values: range, **options: object) -> None:
    """Records with keys and headers, from one producer of librdkafka."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, **options})
    for n in values:
        producer.produce(
            topic, b"v%d" % n, key=b"k%d" % (n % 3), partition=0,
            headers={"n": str(n)}, timestamp=1_700_000_000_000 + n,
        )  # fmt: skip
    assert producer.flush(WAIT_S) == 0


def in_transaction(broker: Any, topic: str, values: range, *, commits: bool) -> None:
    options = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"t-{topic}"}
    producer = Producer(options)
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for n in values:
        producer.produce(topic, b"t%d" % n, key=b"k%d" % (n % 3), partition=0)
    producer.flush(WAIT_S)
    if commits:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)


def batches(broker: Any, topic: str, partition: int = 0) -> list[bytes]:
    """The batches with records, whole but for their leader epochs."""
    found, offset, tp = [], 0, TopicPartition(topic, partition)
    with BlockingClient(broker.bootstrap) as client:
        while True:
            data = memoryview(client.fetch({tp: offset}, max_wait_ms=0)[tp].records)
            if not len(data):
                return found
            for at, header in iter_batches(data):
                offset = header.end_offset
                if header.record_count:
                    batch = bytes(data[at : at + header.size_bytes])
                    found.append(batch[:12] + batch[16:])


def mirrored(source: Any, target: Any, topic: str, *more: str) -> Any:
    arguments = ("run", "--from", source.bootstrap, "--topic", topic, "--once")
    return josefine(target.bootstrap, "mirror", *arguments, *more)


def test_batches_are_the_same_at_the_same_offsets(source: Any, target: Any) -> None:
    create(source, "all", cleanup__policy="compact,delete")
    send(source, "all", range(100), **{"compression.type": "zstd", "linger.ms": 5})
    in_transaction(source, "all", range(10), commits=True)
    in_transaction(source, "all", range(10), commits=False)
    send(source, "all", range(100, 150), **{"enable.idempotence": True})

    done = mirrored(source, target, "all")
    assert done.code == 0, done.err
    assert batches(target, "all") == batches(source, "all") != []

    # Resumed at its end: what comes later follows, and nothing is stored twice.
    send(source, "all", range(150, 200))
    assert mirrored(source, target, "all").code == 0
    assert batches(target, "all") == batches(source, "all")
    checked = josefine(
        target.bootstrap, "mirror", "verify", "--from", source.bootstrap, "--topic", "all"
    )
    assert checked.code == 0, checked.err


def test_clients_cannot_write_to_a_mirror(source: Any, target: Any) -> None:
    create(source, "closed")
    send(source, "closed", range(3))
    assert mirrored(source, target, "closed").code == 0
    with BlockingClient(target.bootstrap) as client, pytest.raises(KafkaError) as refused:
        from josefine_broker.records.builder import RecordBatchBuilder

        builder = RecordBatchBuilder()
        builder.append(b"k", b"v")
        client.produce({TopicPartition("closed", 0): builder.build()})
    assert refused.value.code is ErrorCode.policy_violation
    assert "josefine mirror cutover" in str(refused.value)


def test_cut_over_topic_continues_at_the_next_record(source: Any, target: Any) -> None:
    create(source, "moved")
    send(source, "moved", range(20), **{"enable.idempotence": True})
    with BlockingClient(source.bootstrap) as client:
        client.commit_offsets("readers-1", {TopicPartition("moved", 0): 7})
    assert mirrored(source, target, "moved").code == 0
    send(source, "moved", range(20, 25))
    done = josefine(
        target.bootstrap, "mirror", "cutover", "--from", source.bootstrap, "--topic", "moved",
        "--group", "readers-*",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert batches(target, "moved") == batches(source, "moved")
    # The same producer id, epoch and sequence as the source's first batch: another producer here.
    send(target, "moved", range(20), **{"enable.idempotence": True})
    with BlockingClient(target.bootstrap) as client:
        tp = TopicPartition("moved", 0)
        assert client.committed_offsets("readers-1", [tp]) == {tp: 7}
        assert client.list_offsets({tp: -1})[tp].offset == 45
    again = mirrored(source, target, "moved")
    assert again.code and "cut over" in again.err
