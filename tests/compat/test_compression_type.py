"""`compression.type` of a topic: what a producer sends is stored with the topic's codec, and is the
same to whoever reads it. The same tests run against Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.engine.metadata.topic_config import COMPRESSIONS
from josefine_broker.records.batch import COMPRESSION_MASK, iter_batches, parse_header
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.codecs import Compression
from josefine_broker.records.reader import read_records

RECORDS = [
    Record(b"k%d" % n, b"value " * n, (("header", b"1"),), 1_700_000_000_000 + n) for n in (7, 0, 3)
]


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_batch_has_the_topics_codec_and_everything_else_of_its_producers(
    client: BlockingClient, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(len(Compression), compression_type=name)
    wanted = COMPRESSIONS[name]
    for codec in Compression:
        tp = TopicPartition(topic, codec)
        sent = build_batch(RECORDS, compression=codec)

        client.produce({tp: bytearray(sent)})

        (batch,) = _batches(client, tp)
        before, after = parse_header(sent), parse_header(batch)
        assert after.compression == (codec if wanted is None else wanted)
        same = {"batch_length": 0, "crc": 0, "leader_epoch": 0}
        assert after._replace(attributes=after.attributes & ~COMPRESSION_MASK, **same) == (
            before._replace(attributes=before.attributes & ~COMPRESSION_MASK, **same)
        )
        assert list(read_records(batch)) == list(read_records(sent))


@pytest.mark.parametrize(("name", "codec"), [("gzip", 1), ("lz4", 3), ("producer", 4)])
def test_batch_that_has_the_topics_codec_stays_as_it_was_sent(
    client: BlockingClient, make_topic: Callable[..., str], name: str, codec: int
) -> None:
    tp = TopicPartition(make_topic(compression_type=name), 0)
    sent = build_batch(RECORDS, compression=codec)

    client.produce({tp: bytearray(sent)})

    (batch,) = _batches(client, tp)
    assert batch[17:] == sent[17:], "from the checksum on"


def test_limit_of_a_batch_counts_for_what_is_stored(
    client: BlockingClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(compression_type="uncompressed", max_message_bytes="1000")
    batch = build_batch([Record(b"k", bytes(5_000))], compression=Compression.ZSTD)
    assert len(batch) < 1_000

    with pytest.raises(KafkaError) as raised:
        client.produce({TopicPartition(topic, 0): batch})

    assert raised.value.code is ErrorCode.message_too_large


@pytest.mark.parametrize("codec", list(Compression))
def test_brokers_time_is_that_of_records_with_another_codec(
    client: BlockingClient, make_topic: Callable[..., str], codec: Compression
) -> None:
    topic = make_topic(compression_type="zstd", message_timestamp_type="LogAppendTime")
    tp = TopicPartition(topic, 0)

    client.produce({tp: build_batch(RECORDS, compression=codec)})

    (batch,) = _batches(client, tp)
    assert parse_header(batch).timestamp_type == 1
    (time_ms,) = {each.timestamp_ms for each in read_records(batch)}
    assert time_ms > RECORDS[0].timestamp_ms


def _batches(client: BlockingClient, tp: TopicPartition) -> list[bytes]:
    data = bytes(client.fetch({tp: 0})[tp].records)
    return [data[pos : pos + header.size_bytes] for pos, header in iter_batches(data)]
