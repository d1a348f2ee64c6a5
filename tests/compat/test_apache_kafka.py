"""Our own client against Apache Kafka: a cross-check, run by `./build.sh test oracle`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    BlockingClient,
    BlockingProducer,
    NewTopic,
)
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records
from tests.compat.brokers import WITH_APACHE_KAFKA
from tests.compat.samples import SAMPLES, Sample

pytestmark = pytest.mark.skipif(not WITH_APACHE_KAFKA, reason="only against Apache Kafka")


@pytest.fixture
def apache(bootstrap: str) -> Iterator[BlockingClient]:
    with BlockingClient(bootstrap) as client:
        yield client


@pytest.fixture
def topic(apache: BlockingClient) -> Iterator[str]:
    name = f"josefine-{uuid.uuid4().hex[:8]}"
    apache.create_topics([NewTopic(name, 2, 1)])
    yield name
    apache.delete_topics([name])


@pytest.mark.parametrize("compression", range(5))
def test_records_come_back_as_we_wrote_them(
    apache: BlockingClient, topic: str, compression: int
) -> None:
    tp = TopicPartition(topic, 1)
    producer = BlockingProducer(apache, compression=compression)
    for s in SAMPLES:
        producer.send(topic, s.key, s.value, s.headers, 1, s.timestamp_ms)
    producer.flush()

    records = apache.fetch({tp: 0})[tp].records
    read = [r for pos, _ in iter_batches(records) for r in read_records(records[pos:])]

    assert [Sample(r.key, r.value, tuple(r.headers), r.timestamp_ms) for r in read] == list(SAMPLES)
    wanted = {EARLIEST: 0, LATEST: len(SAMPLES), MAX_TIMESTAMP: 8, SAMPLES[3].timestamp_ms: 3}
    assert {at: apache.list_offsets({tp: at})[tp].offset for at in wanted} == wanted


def test_topics_and_offsets_are_administered(apache: BlockingClient, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    apache.produce({tp: _one_record()})

    apache.create_partitions({topic: 5})
    apache.alter_configs({topic: {"retention.ms": "123456"}})
    apache.commit_offsets("josefine-cross-check", {tp: 1})

    assert apache.partition_count(topic) == 5
    assert apache.describe_configs([topic])[topic]["retention.ms"].value == "123456"
    assert apache.committed_offsets("josefine-cross-check", [tp]) == {tp: 1}
    assert apache.delete_records({tp: 1}) == {tp: 1}
    assert apache.fetch({tp: 0})[tp].error_code is ErrorCode.offset_out_of_range


def test_unknown_topics_are_told_so(apache: BlockingClient) -> None:
    with pytest.raises(KafkaError, match="topic 'no-such-topic' does not exist"):
        apache.list_offsets({TopicPartition("no-such-topic", 0): LATEST})


def _one_record() -> bytearray:
    from josefine_broker.records.builder import Record, build_batch

    return build_batch([Record(b"k", b"v", (), 1_700_000_000_000)])
