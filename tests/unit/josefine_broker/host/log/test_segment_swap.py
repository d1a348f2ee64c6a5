"""A cleaned segment takes the place of others, and a stop at any step loses nothing."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.host.log.segment import stem_of
from josefine_broker.host.log.segment_swap import (
    CLEANED_SUFFIX,
    SWAP_SUFFIX,
    begin_swap,
    end_swap,
    end_swaps,
)
from josefine_broker.records.builder import Record, build_batch
from tests.simulation.memory_files import MemoryFiles

DIRECTORY = "t-0"


def batch(base: int, count: int = 5) -> bytes:
    return bytes(build_batch([Record(None, b"v", (), 0)] * count, base_offset=base))


def disk(**files: bytes) -> MemoryFiles:
    """Files by base offset and suffix: `s10_log`, `s0_swap`, `s0_cleaned`, `s10_index`."""
    suffixes = {"log": ".log", "swap": SWAP_SUFFIX, "cleaned": CLEANED_SUFFIX, "index": ".index"}
    made = MemoryFiles()
    for name, data in files.items():
        base, _, kind = name[1:].partition("_")
        file = made.open(stem_of(DIRECTORY, int(base)) + suffixes[kind], create=True)
        file.write_at_end([data])
        file.sync()
        made.sync_directory(DIRECTORY)
    return made


def names(files: MemoryFiles) -> list[str]:
    return [name.lstrip("0") for name in files.list(DIRECTORY)]


def test_at_a_start_a_segment_that_does_not_count_yet_is_removed() -> None:
    files = disk(s0_log=batch(0), s0_cleaned=batch(0, 1), s10_log=batch(10))

    end_swaps(files, DIRECTORY)

    assert names(files) == [".log", "10.log"]


def test_at_a_start_a_swap_that_counts_is_finished() -> None:
    """It covers offsets 0 to 14: the segment at 5 is one of those it was made from."""
    whole = batch(0, 2) + batch(10, 5)
    files = disk(
        s0_log=batch(0), s0_swap=whole, s0_index=b"x", s5_log=batch(5), s5_index=b"x",
        s15_log=batch(15),
    )  # fmt: skip

    end_swaps(files, DIRECTORY)

    assert names(files) == [".log", "15.log"]
    assert bytes(files.names[stem_of(DIRECTORY, 0) + ".log"].data) == whole
    end_swaps(files, DIRECTORY)
    assert names(files) == [".log", "15.log"]


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:-1] + b"?", lambda b: b + b[:70]]
)
def test_a_damaged_replacement_changes_nothing_and_names_the_way_out(damage) -> None:
    files = disk(s0_log=batch(0), s0_swap=damage(batch(0)), s5_log=batch(5))
    before = names(files)

    with pytest.raises(CorruptData, match="remove its directory"):
        end_swaps(files, DIRECTORY)

    assert names(files) == before


def test_a_swap_renames_replaces_and_leaves_the_others() -> None:
    files = disk(s0_log=batch(0), s0_cleaned=batch(0, 9), s5_log=batch(5), s20_log=batch(20))

    assert begin_swap(files, stem_of(DIRECTORY, 0))
    assert names(files) == [".log", ".log.swap", "5.log", "20.log"]
    end_swap(files, stem_of(DIRECTORY, 0), [stem_of(DIRECTORY, 5)])

    assert names(files) == [".log", "20.log"]
    assert bytes(files.names[stem_of(DIRECTORY, 0) + ".log"].data) == batch(0, 9)


def test_a_full_disk_leaves_the_segments_as_they_were() -> None:
    files = disk(s0_log=batch(0), s0_cleaned=batch(0))
    files.fails_to_rename = True

    assert not begin_swap(files, stem_of(DIRECTORY, 0))
    assert names(files) == [".log", ".log.cleaned"]


def test_a_rename_of_unknown_outcome_is_an_error() -> None:
    files = disk(s0_log=batch(0))

    with pytest.raises(OSError):  # noqa: PT011
        begin_swap(files, stem_of(DIRECTORY, 0))
