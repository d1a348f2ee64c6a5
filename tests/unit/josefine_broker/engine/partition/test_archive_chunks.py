"""The cache of record batches that came from archives."""

from uuid import UUID

import pytest

from josefine_broker.engine.partition.archive_chunks import (
    OVERHEAD_BYTES,
    Chunk,
    Chunks,
    taken,
)
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record, build_batch

PLACE = (UUID(int=1), 0)
UNTIL_MS = 100


def batches(*first: int, records: int = 2) -> memoryview:
    made = [build_batch([Record(b"k", b"v")] * records, base_offset=at) for at in first]
    return memoryview(b"".join(made))


def chunk(first: int, next_offset: int, data: memoryview | None = None) -> Chunk:
    return Chunk(first, next_offset, memoryview(b"") if data is None else data, UNTIL_MS)


def bases(data: memoryview) -> list[int]:
    return [header.base_offset for _, header in iter_batches(data)]


@pytest.mark.parametrize(
    ("offset", "bytes_max", "expected"),
    [
        (0, 10_000, [0, 2, 8]),
        (1, 10_000, [0, 2, 8]),  # within a batch
        (2, 10_000, [2, 8]),
        (4, 10_000, [8]),  # in a gap
        (9, 10_000, [8]),
        (10, 10_000, []),
        (0, 0, [0]),  # one batch of any size
        (0, 160, [0, 2]),
    ],
)
def test_reader_gets_whole_batches_from_its_offset_on(
    offset: int, bytes_max: int, expected: list[int]
) -> None:
    assert bases(taken(chunk(0, 20, batches(0, 2, 8)), offset, bytes_max)) == expected


def test_chunk_is_found_by_any_offset_of_its_range() -> None:
    chunks = Chunks()
    chunks.add(PLACE, chunk(10, 20))
    chunks.add(PLACE, chunk(20, 30))

    found = {at: chunks.find(PLACE, at, 0) for at in (9, 10, 19, 20, 29, 30)}

    assert {at: None if each is None else each.first for at, each in found.items()} == {
        9: None, 10: 10, 19: 10, 20: 20, 29: 20, 30: None,
    }  # fmt: skip
    assert chunks.find((UUID(int=2), 0), 10, 0) is None
    assert chunks.find((UUID(int=1), 1), 10, 0) is None


def test_oldest_go_first_and_memory_is_bounded() -> None:
    data = batches(0)
    size = len(data) + OVERHEAD_BYTES
    chunks = Chunks(bytes_max=2 * size)
    for at in range(3):
        chunks.add(PLACE, chunk(at, at + 1, data))
        chunks.find(PLACE, 0, 0)  # used, so the next one goes

    assert [at for at in range(3) if chunks.find(PLACE, at, 0)] == [0, 2]
    assert chunks.size_bytes == 2 * size


def test_chunk_that_is_larger_than_the_bound_is_kept_alone() -> None:
    chunks = Chunks(bytes_max=1)
    chunks.add(PLACE, chunk(0, 1, batches(0)))
    chunks.add(PLACE, chunk(1, 2, batches(0)))

    assert chunks.find(PLACE, 0, 0) is None
    assert chunks.find(PLACE, 1, 0) is not None


def test_same_first_offset_replaces() -> None:
    chunks = Chunks()
    chunks.add(PLACE, chunk(0, 5, batches(0)))
    chunks.add(PLACE, chunk(0, 9))

    assert chunks.find(PLACE, 7, 0) is not None
    assert chunks.size_bytes == OVERHEAD_BYTES


def test_chunk_counts_for_a_while() -> None:
    """The archive may have lost or erased its records meanwhile."""
    chunks = Chunks()
    chunks.add(PLACE, chunk(0, 5, batches(0)))

    assert chunks.find(PLACE, 0, UNTIL_MS - 1) is not None
    assert chunks.find(PLACE, 0, UNTIL_MS) is None
    assert chunks.size_bytes == 0
