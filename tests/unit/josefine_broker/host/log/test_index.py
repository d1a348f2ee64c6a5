"""The sparse index: a lookup never starts after what it looks for, and a stored one is proof."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.host.log.index import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentSummary,
    SparseIndex,
    load_index,
    load_summary,
    remove_index,
    store_index,
)
from tests.simulation.memory_files import MemoryFiles

SUMMARY = SegmentSummary(
    base_offset=100, log_bytes=5_000, end_offset=160, max_timestamp_ms=77, max_timestamp_offset=120,
    first_append_ms=5, last_append_ms=9, last_leader_epoch=3, log_crc=0xDEADBEEF,
)  # fmt: skip
STEM = "t-0/00000000000000000100"
ENTRIES = st.lists(
    st.tuples(st.integers(1, 50), st.integers(1, 500), st.integers(0, 9)), max_size=8
)


def index_of(steps) -> SparseIndex:
    """Ascending entries by their distances."""
    index, offset, position, time = SparseIndex(), 0, 0, 0
    for more_offsets, more_bytes, more_time in steps:
        offset, position, time = offset + more_offsets, position + more_bytes, time + more_time
        index.add(offset, position, time)
    return index


def columns(index: SparseIndex) -> tuple[list[int], list[int], list[int]]:
    return list(index.offsets), list(index.positions), list(index.times)


@given(ENTRIES, st.integers(0, 500))
def test_a_lookup_by_offset_starts_at_the_last_entry_that_is_not_after_it(steps, offset) -> None:
    index = index_of(steps)

    found = [p for o, p in zip(index.offsets, index.positions, strict=True) if o <= offset]

    assert index.position_of_offset(offset) == (found[-1] if found else 0)


@given(ENTRIES, st.integers(0, 5_000))
def test_a_position_is_brought_back_to_a_batch_start(steps, position) -> None:
    index = index_of(steps)

    assert index.position_before(position) == max(
        (p for p in index.positions if p <= position), default=0
    )


@given(ENTRIES, st.integers(0, 90))
def test_a_lookup_by_time_starts_where_all_batches_before_are_older(steps, time) -> None:
    """`times` has the newest timestamp before each entry."""
    index = index_of(steps)

    position = index.position_of_timestamp(time)

    before = [t for p, t in zip(index.positions, index.times, strict=True) if p == position]
    assert all(newest < time for newest in before)
    after = [t for p, t in zip(index.positions, index.times, strict=True) if p > position]
    assert all(newest >= time for newest in after)


@given(ENTRIES)
def test_a_stored_index_is_read_back_for_its_own_log_only(steps) -> None:
    files, index = MemoryFiles(), index_of(steps)

    store_index(files, STEM, SUMMARY, index)

    assert load_summary(files, STEM) == SUMMARY
    found = load_index(files, STEM, SUMMARY)
    assert found is not None
    assert columns(found) == columns(index)
    assert load_index(files, STEM, SUMMARY._replace(log_bytes=5_001)) is None


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@given(data=st.data())
def test_no_damaged_byte_is_taken_for_an_index(suffix, data) -> None:
    files = MemoryFiles()
    store_index(files, STEM, SUMMARY, index_of([(1, 2, 3), (4, 5, 6)]))
    content = files.names[STEM + suffix].data
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))

    assert load_index(files, STEM, SUMMARY) is None
    if suffix == INDEX_SUFFIX:
        assert load_summary(files, STEM) in (None, SUMMARY)


def test_a_cut_or_missing_file_is_none() -> None:
    files = MemoryFiles()
    assert load_summary(files, STEM) is None
    store_index(files, STEM, SUMMARY, index_of([(1, 2, 3)]))
    del files.names[STEM + TIME_INDEX_SUFFIX].data[-1]

    assert load_index(files, STEM, SUMMARY) is None
    remove_index(files, STEM)
    assert load_summary(files, STEM) is None


def test_the_proof_that_the_log_is_synced_is_written_last() -> None:
    files = MemoryFiles()
    opened: list[str] = []
    files.on_open = opened.append

    store_index(files, STEM, SUMMARY, index_of([]))

    assert [path.partition(STEM)[2] for path in opened] == [".timeindex.tmp", ".index.tmp"]
