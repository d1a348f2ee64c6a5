"""Batches and records held equal to those of aiokafka and kafka-python, both ways."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder

from josefine_broker.records.batch import parse_header, verify
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records

data = st.none() | st.binary(max_size=80)
records = st.lists(
    st.builds(
        Record,
        key=data,
        value=data
        | st.integers(300, 70_000).map(lambda size: (b"flight %d," % size) * (size // 10)),
        headers=st.lists(st.tuples(st.text(max_size=10), data), max_size=3).map(tuple),
        timestamp_ms=st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=12,
)
oracles = pytest.mark.parametrize(
    ("builder_class", "batch_class"),
    [(AioBuilder, AioBatch), (KafkaBuilder, KafkaBatch)],
    ids=["aiokafka", "kafka-python"],
)
codecs = pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])


@oracles
@codecs
@settings(max_examples=12, deadline=None)
@given(records=records)
def test_others_read_what_we_build(
    builder_class: Any, batch_class: Any, codec: int, records: list[Record]
) -> None:
    """Checklist row 22."""
    built = build_batch(
        records, compression=codec, producer_id=5, producer_epoch=1, base_sequence=3,
        base_offset=100,
    )  # fmt: skip

    found = batch_class(bytes(built))

    assert found.validate_crc()
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (5, 1, 3)
    assert [Record(r.key, r.value, tuple(r.headers), r.timestamp, r.offset) for r in found] == [
        record._replace(offset=100 + at) for at, record in enumerate(records)
    ]


@oracles
@codecs
@settings(max_examples=12, deadline=None)
@given(records=records)
def test_we_read_what_others_build(
    builder_class: Any, batch_class: Any, codec: int, records: list[Record]
) -> None:
    """Checklist row 22."""
    builder = builder_class(
        magic=2, compression_type=codec, is_transactional=0, producer_id=5, producer_epoch=1,
        base_sequence=3, batch_size=1 << 24,
    )  # fmt: skip
    for at, record in enumerate(records):
        builder.append(at, record.timestamp_ms, record.key, record.value, list(record.headers))
    built = bytes(builder.build())

    header = parse_header(built)

    verify(built, 0, header)
    assert header.record_count == len(records)
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
    assert list(read_records(built)) == [
        record._replace(offset=at) for at, record in enumerate(records)
    ]


@oracles
@settings(max_examples=20, deadline=None)
@given(records=records)
def test_uncompressed_batches_are_equal_byte_for_byte(
    builder_class: Any, batch_class: Any, records: list[Record]
) -> None:
    builder = builder_class(
        magic=2, compression_type=0, is_transactional=0, producer_id=5, producer_epoch=1,
        base_sequence=3, batch_size=1 << 24,
    )  # fmt: skip
    for at, record in enumerate(records):
        builder.append(at, record.timestamp_ms, record.key, record.value, list(record.headers))
    theirs = bytes(builder.build())

    leader_epoch = parse_header(theirs).leader_epoch
    ours = build_batch(
        records, producer_id=5, producer_epoch=1, base_sequence=3, leader_epoch=leader_epoch
    )

    assert bytes(ours) == theirs
