"""What the sink encodes column-wise is what the broker's own reader reads, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_arrow.batches.columns import HEADERS_FIELD
from josefine_arrow.batches.encoder import Encoder, Identity
from josefine_arrow.cache.kernels import import_kernels
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.partitioner import murmur2
from josefine_broker.records.batch import parse_header, verify
from josefine_broker.records.builder import Record
from josefine_broker.records.reader import read_records

NOW_MS = 1_700_000_000_000
MAYBE_BYTES = st.none() | st.binary(max_size=30) | st.binary(min_size=60, max_size=300)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=3)
ROWS = st.lists(st.tuples(MAYBE_BYTES, MAYBE_BYTES, HEADERS), min_size=1, max_size=30)


def columns(rows: list[Any]) -> tuple[pa.Array, pa.Array, pa.Array]:
    keys = pa.array([row[0] for row in rows], pa.binary())
    values = pa.array([row[1] for row in rows], pa.binary())
    headers = [
        None if row[2] is None else [{"key": name, "value": value} for name, value in row[2]]
        for row in rows
    ]
    return keys, values, pa.array(headers, HEADERS_FIELD.type)


def drain(encoder: Encoder) -> dict[TopicPartition, list[Record]]:
    """All records by partition, every batch checked on the way."""
    found: dict[TopicPartition, list[Record]] = {}
    encoder.seal_all(NOW_MS)
    while encoder.sealed_bytes:
        for tp, sealed in encoder.take().items():
            header = parse_header(sealed.data)
            verify(sealed.data, 0, header)
            assert header.record_count == sealed.records
            assert header.base_sequence == len(found.get(tp, []))
            found.setdefault(tp, []).extend(read_records(sealed.data))
    return found


@settings(deadline=None, max_examples=80)
@given(
    rows=ROWS,
    more=ROWS,
    skip=st.integers(0, 3),
    batch_bytes=st.integers(100, 2000),
    compression=st.integers(0, 4),
    with_headers=st.booleans(),
)
def test_encoded_rows_are_read_back_in_order(
    rows: list[Any],
    more: list[Any],
    skip: int,
    batch_bytes: int,
    compression: int,
    with_headers: bool,
) -> None:
    identity = Identity(producer_id=9, producer_epoch=0)
    encoder = Encoder(identity, batch_bytes=batch_bytes, compression=compression)
    expected = []
    for part in (rows, more):
        # Spark gives slices too: offsets into the buffers must count.
        keys, values, headers = (column.slice(min(skip, len(part))) for column in columns(part))
        numbers = np.arange(len(keys), dtype=np.int64)
        if len(keys):
            partitions = np.zeros(len(keys), dtype=np.int64)
            given = headers if with_headers else None
            encoder.add(keys, values, given, partitions, {"t": (numbers, 1)}, NOW_MS)
        expected += part[min(skip, len(part)) :]

    found = drain(encoder).get(TopicPartition("t", 0), [])

    assert [(r.key, r.value) for r in found] == [(row[0], row[1]) for row in expected]
    wanted = [list(row[2] or []) if with_headers else [] for row in expected]
    assert [list(r.headers) for r in found] == wanted
    assert {r.timestamp_ms for r in found} <= {NOW_MS}


@settings(deadline=None)
@given(keys=st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_keys_hash_as_in_the_client(keys: list[bytes]) -> None:
    kernels = import_kernels("josefine_arrow.batches.encode_kernels")
    data = np.frombuffer(b"".join(keys) or b"\0", dtype=np.uint8)
    data.flags.writeable = False
    end = 0

    for key in keys:
        start, end = end, end + len(key)
        assert kernels.murmur2(data, start, end) == murmur2(key) & 0x7FFFFFFF


def test_a_record_larger_than_the_batch_limit_is_a_batch_of_its_own() -> None:
    encoder = Encoder(Identity(producer_id=9, producer_epoch=0), batch_bytes=1000)
    keys, values, _ = columns([(None, b"s", []), (None, b"x" * 5000, []), (None, b"t", [])])
    rows = np.arange(3, dtype=np.int64)

    encoder.add(keys, values, None, np.zeros(3, dtype=np.int64), {"t": (rows, 1)}, NOW_MS)

    assert [r.value for r in drain(encoder)[TopicPartition("t", 0)]] == [b"s", b"x" * 5000, b"t"]


def test_rows_go_to_the_topic_and_partition_they_name() -> None:
    encoder = Encoder(Identity(producer_id=9, producer_epoch=0), batch_bytes=1000)
    keys, values, _ = columns([(b"k", b"%d" % n, []) for n in range(6)])
    topics = {"a": (np.array([0, 2, 4]), 3), "b": (np.array([1, 3, 5]), 3)}

    encoder.add(keys, values, None, np.array([0, 1, 2, 0, 0, 1]), topics, NOW_MS)

    found = {tp: [r.value for r in records] for tp, records in drain(encoder).items()}
    assert found == {
        TopicPartition("a", 0): [b"0", b"4"],
        TopicPartition("a", 2): [b"2"],
        TopicPartition("b", 0): [b"3"],
        TopicPartition("b", 1): [b"1", b"5"],
    }


def test_many_rows_of_one_partition_keep_their_order() -> None:
    encoder = Encoder(Identity(producer_id=9, producer_epoch=0), batch_bytes=64 * 1024)
    count = 5_000
    keys, values, _ = columns([(None, b"%d" % n, []) for n in range(count)])
    rows = np.arange(count, dtype=np.int64)

    encoder.add(keys, values, None, rows % 3, {"t": (rows, 3)}, NOW_MS)

    for tp, records in drain(encoder).items():
        found = [int(r.value or b"") for r in records]
        assert found == list(range(tp.partition, count, 3))


def test_rows_with_a_key_take_turns_when_keys_are_not_to_decide() -> None:
    rows = np.arange(4_000, dtype=np.int64)
    keys, values, _ = columns([(b"same", b"%d" % n, []) for n in range(rows.size)])
    found = {}
    for hash_keys in (True, False):
        encoder = Encoder(
            Identity(producer_id=9, producer_epoch=0), batch_bytes=10_000, hash_keys=hash_keys
        )
        encoder.add(keys, values, None, np.full(rows.size, -1), {"t": (rows, 3)}, NOW_MS)
        found[hash_keys] = {tp.partition: len(got) for tp, got in drain(encoder).items()}

    assert len(found[True]) == 1
    assert sorted(found[False].values()) == [1024, 1024, 1952]
