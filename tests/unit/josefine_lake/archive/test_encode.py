"""Archived rows as record batches: what a reader of batches finds in them."""

import random

import pyarrow as pa
import pytest

from josefine_broker.records.batch import NO_LEADER_EPOCH, iter_batches, verify
from josefine_broker.records.reader import read_records
from josefine_lake.archive.encode import BATCH_BYTES, Encoded, Row, encoded, rows_of
from josefine_lake.writer.columns import ARCHIVE_SCHEMA


def row(offset: int, **changed: object) -> Row:
    base = Row(offset, 1_000 + offset, 0, 0, b"k", b"v", ())
    return base._replace(**changed)


def read(found: Encoded) -> list[Row]:
    """The records of the batches, by the reader of the broker."""
    rows = []
    for pos, header in iter_batches(found.data):
        batch = memoryview(found.data)[pos : pos + header.size_bytes]
        verify(batch, 0, header)
        assert header.leader_epoch == NO_LEADER_EPOCH
        kind = 1 if header.attributes & 8 else 0
        rows += [
            Row(r.offset, r.timestamp_ms, kind, 0, r.key, r.value, tuple(r.headers))
            for r in read_records(batch)
        ]
    return rows


def test_records_come_back_with_offsets_gaps_nulls_and_headers() -> None:
    random.seed(7)
    offsets = sorted(random.sample(range(10_000), 500))
    rows = [
        row(
            offset,
            timestamp_ms=random.choice([-1, 0, 5, 10**12]),
            key=random.choice([None, b"", b"k"]),
            value=random.choice([None, b"", b"v" * 1000]),
            headers=random.choice([(), (("a", None), ("a", b""), ("", b"x"))]),
        )
        for offset in offsets
    ]

    found = encoded(iter(rows), 0, 1 << 30)

    assert read(found) == rows
    assert found.next_offset == offsets[-1] + 1


def test_batch_has_one_epoch_and_one_kind_of_time() -> None:
    rows = [
        row(0),
        row(1, leader_epoch=1),
        row(2, leader_epoch=1, timestamp_type=1, timestamp_ms=9),
        row(3, leader_epoch=1, timestamp_type=1, timestamp_ms=9),
        row(4, leader_epoch=1, timestamp_type=1, timestamp_ms=10),
    ]

    found = encoded(iter(rows), 0, 1 << 30)

    assert [header.base_offset for _, header in iter_batches(found.data)] == [0, 1, 2, 4]
    assert read(found) == [each._replace(leader_epoch=0) for each in rows]


@pytest.mark.parametrize("bytes_max", [0, 1, 3_000, 2 * BATCH_BYTES])
def test_answer_is_bounded_and_continues(bytes_max: int) -> None:
    rows = [row(n, value=b"v" * 1_000) for n in range(1_000)]
    got: list[Row] = []
    at = 0
    while at < 1_000:
        found = encoded(iter(rows[at:]), at, bytes_max)
        assert at < found.next_offset  # at least one record
        assert len(found.data) <= max(bytes_max, 1_200)
        got += read(found)
        at = found.next_offset

    assert got == rows


def test_no_rows_are_no_batches() -> None:
    assert encoded(iter(()), 7, 100) == Encoded(b"", 7)


def test_rows_of_an_arrow_table() -> None:
    table = pa.Table.from_pylist(
        [
            {
                "key": None, "value": b"", "topic": "t", "partition": 0, "offset": 3,
                "timestamp": 1_234_000, "timestampType": 1, "leader_epoch": 5,
                "headers": [{"key": "a", "value": None}],
            },
            {"topic": "t", "partition": 0, "offset": 4, "timestampType": 0, "leader_epoch": 5},
        ],
        schema=ARCHIVE_SCHEMA,
    )  # fmt: skip

    assert list(rows_of(table)) == [
        Row(3, 1_234, 1, 5, None, b"", (("a", None),)),
        Row(4, -1, 0, 5, None, None, ()),
    ]
