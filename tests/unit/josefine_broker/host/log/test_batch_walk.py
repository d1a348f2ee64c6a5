"""A walk returns each complete batch with its place, and says where the first incomplete one is."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import File
from josefine_broker.host.log.batch_walk import SCAN_BYTES, walk_batches
from josefine_broker.records.batch import HEADER_BYTES
from josefine_broker.records.builder import Record, build_batch
from tests.simulation.memory_files import MemoryFiles


def batch(size: int) -> bytes:
    return bytes(build_batch([Record(None, b"v" * size, (), 0)]))


def file_of(*parts: bytes) -> File:
    file = MemoryFiles().open("a.log", create=True)
    file.write_at_end([b"".join(parts)])
    return file


@pytest.mark.parametrize("large", [10, SCAN_BYTES - 300, SCAN_BYTES + 1, 3 * SCAN_BYTES])
def test_batches_of_any_size_are_walked_in_order(large: int) -> None:
    parts = [batch(10), batch(large), batch(20)]
    file = file_of(*parts)

    found = list(walk_batches(file, 0, sum(map(len, parts))))

    assert [bytes(data) for _, _, data in found] == parts
    assert [position for position, _, _ in found] == [
        0, len(parts[0]), len(parts[0]) + len(parts[1]),
    ]  # fmt: skip


def test_a_walk_may_start_at_any_batch_and_ends_at_the_given_byte() -> None:
    parts = [batch(10), batch(20), batch(30)]
    start, end = len(parts[0]), len(parts[0]) + len(parts[1])

    found = list(walk_batches(file_of(*parts), start, end))

    assert [bytes(data) for _, _, data in found] == [parts[1]]


@pytest.mark.parametrize("left", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 3])
def test_a_batch_that_is_cut_off_is_damage_after_the_complete_ones(left: int) -> None:
    first, second = batch(10), batch(20)
    file = file_of(first, second[:left])
    walk = walk_batches(file, 0, len(first) + left)

    assert bytes(next(walk)[2]) == first
    with pytest.raises(CorruptData, match="cut off after"):
        next(walk)


def test_bytes_that_are_no_batch_are_damage_with_their_place() -> None:
    first = batch(10)
    file = file_of(first, bytes(200))
    walk = walk_batches(file, 0, len(first) + 200)

    next(walk)
    with pytest.raises(CorruptData, match=f"no batch at byte {len(first)}"):
        next(walk)
