"""Archived rows as record batches: what a reader of batches finds in them."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from josefine_arrow.batches import encode_oracle, encoder
from josefine_broker.records.batch import NO_LEADER_EPOCH, iter_batches, verify
from josefine_broker.records.reader import read_records
from josefine_lake.archive import encode
from josefine_lake.archive.encode import BATCH_BYTES, Encoded, encoded
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from tests.unit.josefine_spark.guarded_kernels import guarded_kernels


class Row(NamedTuple):
    """One archived record."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "key": row.key, "value": row.value, "topic": "t", "partition": 0,
                "offset": row.offset, "timestampType": row.timestamp_type,
                "timestamp": None if row.timestamp_ms == -1 else row.timestamp_ms * 1_000 + 999,
                "leader_epoch": row.leader_epoch,
                "headers": [{"key": name, "value": value} for name, value in row.headers] or None,
            }
            for row in rows
        ],
        schema=ARCHIVE_SCHEMA,
    )  # fmt: skip


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


@pytest.mark.parametrize("is_compiled", [True, False])
def test_records_come_back_with_offsets_gaps_nulls_and_headers(
    is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_compiled:
        monkeypatch.setattr(encode, "encode_loops", lambda: encode_oracle)
    random.seed(7)
    offsets = sorted(random.sample(range(10_000), 500))
    rows = [
        row(
            offset,
            timestamp_ms=random.choice([-1, 0, 5, -7_000, 10**12, 253_402_300_799_999]),
            key=random.choice([None, b"", b"k"]),
            value=random.choice([None, b"", b"v" * 1000]),
            headers=random.choice([(), (("a", None), ("a", b""), ("", b"x"))]),
        )
        for offset in offsets
    ]

    found = encoded(table(rows), 0, 1 << 30)

    assert read(found) == rows
    assert found.next_offset == offsets[-1] + 1
    # A part of a table, in several chunks.
    part = pa.concat_tables([table(rows[:100]), table(rows[100:])]).slice(37, 200)
    assert read(encoded(part, 0, 1 << 30)) == rows[37:237]


def test_batch_has_one_epoch_and_one_kind_of_time() -> None:
    rows = [
        row(0),
        row(1, leader_epoch=1),
        row(2, leader_epoch=1, timestamp_type=1, timestamp_ms=9),
        row(3, leader_epoch=1, timestamp_type=1, timestamp_ms=9),
        row(4, leader_epoch=1, timestamp_type=1, timestamp_ms=10),
    ]

    found = encoded(table(rows), 0, 1 << 30)

    assert [header.base_offset for _, header in iter_batches(found.data)] == [0, 1, 2, 4]
    assert read(found) == [each._replace(leader_epoch=0) for each in rows]


def test_batch_ends_before_a_gap_that_it_cannot_express() -> None:
    far = 2**31
    rows = [row(n, timestamp_ms=1) for n in (0, 1, far - 1, far, 2 * far, 2**62)]

    found = encoded(table(rows), 0, 1 << 30)

    bases = [header.base_offset for _, header in iter_batches(found.data)]
    assert bases == [0, far, 2 * far, 2**62]
    assert read(found) == rows


@pytest.mark.parametrize("bytes_max", [0, 1, 3_000, 2 * BATCH_BYTES])
def test_answer_is_bounded_and_continues(bytes_max: int) -> None:
    rows = [row(n, value=b"v" * 1_000) for n in range(1_000)]
    got: list[Row] = []
    at = 0
    while at < 1_000:
        found = encoded(table(rows[at:]), at, bytes_max)
        assert at < found.next_offset  # at least one record
        assert len(found.data) <= max(bytes_max, 1_200)
        got += read(found)
        at = found.next_offset

    assert got == rows


def test_no_rows_are_no_batches() -> None:
    assert encoded(table([]), 7, 100) == Encoded(b"", 7)


def test_a_record_without_room_is_not_written() -> None:
    """The kernels compute in memory that nobody checks: what does not fit is refused before."""
    rows = table([row(0, value=b"v" * 300, headers=(("a", b"b"),)), row(1)])
    views = [encoder.BytesView(rows.column(name).chunk(0)).arrays for name in ("key", "value")]
    headers = encoder.header_views(rows.column("headers").chunk(0))
    numbers = np.array([0, 1])
    numbers.flags.writeable = False
    whole = np.zeros(1_000, np.uint8)
    guarded = guarded_kernels(module="josefine_arrow.batches.encode_kernels")
    for loops in (encode_oracle, encoder.encode_loops(), guarded):
        arguments = (numbers, numbers, *views[0], *views[1], *headers)
        done, size = loops.encode_stored(0, 2, *arguments, whole, 0)
        assert done == 2
        for room in range(size):
            out = np.full(size + 64, 7, np.uint8)
            done, after = loops.encode_stored(0, 2, *arguments, out[:room], 0)
            assert done < 2
            assert after <= room
            assert (out[room:] == 7).all()
            assert (out[:after] == whole[:after]).all()
