"""Holes in the values of records: what is left of a batch reads as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_broker.records.batch import parse_header
from josefine_broker.records.builder import Record, build_batch
from tests.bench.sparse_logs import PAGE, PREFIX, PUNCH_EVERY, Puncher, batches, holes, parts

VALUE_BYTES = 100_000


def batch_at(offset: int) -> bytes:
    batch = build_batch([Record(None, bytes(VALUE_BYTES), (), 1_700_000_000_000)])
    return PREFIX.pack(offset, len(batch) - PREFIX.size) + bytes(batch[PREFIX.size :])


def test_holes_leave_every_byte_and_free_most_of_the_disk(tmp_path: Path) -> None:
    written = b"".join(batch_at(offset) for offset in range(20))
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(written)
    half = len(batch_at(0)) * 10
    puncher = Puncher(tmp_path)

    try:
        puncher.punch()
    except OSError as error:
        pytest.skip(str(error))

    assert file.read_bytes() == written
    assert file.stat().st_blocks * 512 < len(written) / 4
    parse_header(memoryview(bytearray(file.read_bytes()[half:])))


def test_holes_begin_after_the_header_and_end_before_the_last_byte() -> None:
    for start in (0, 1, PAGE - 1, 12_345):
        first, length = holes(start, VALUE_BYTES)

        assert first >= start + 512
        assert first + length < start + VALUE_BYTES
        assert length % PAGE == first % PAGE == 0


def test_small_batch_has_no_hole() -> None:
    assert holes(0, 600)[1] == 0


def test_batch_that_is_still_written_is_left_for_the_next_time() -> None:
    batch = batch_at(7)

    assert batches(batch, len(batch)) == len(batch)
    assert batches(batch, len(batch) - 1) == 0
    assert batches(batch[:11], len(batch)) == 0


def test_every_record_is_in_one_part() -> None:
    assert list(parts(2 * PUNCH_EVERY + 1)) == [PUNCH_EVERY, PUNCH_EVERY, 1]
