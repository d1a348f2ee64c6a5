"""The simulated disk: how long a sector stays unreadable."""

from random import Random

import pytest

from tests.simulation.memory_files import SECTOR_BYTES, MemoryFile, MemoryFiles

BAD = 2 * SECTOR_BYTES


def written() -> tuple[MemoryFiles, MemoryFile]:
    """A synced file of four sectors, of which the third cannot be read."""
    files = MemoryFiles()
    file = files.open("log", create=True)
    file.write_at_end([b"a" * 4 * SECTOR_BYTES])
    file.sync()
    files.durable_names = dict(files.names)
    files.names["log"].unreadable.add(BAD)
    return files, file


def test_what_is_written_after_a_cut_is_on_readable_sectors():
    """A log that was cut and written again stayed unreadable for ever (life 44416)."""
    _, file = written()
    file.truncate(0)
    file.write_at_end([b"b" * 4 * SECTOR_BYTES])
    assert file.read_at(BAD, 1) == b"b"


def test_a_cut_after_the_sector_leaves_it_unreadable():
    _, file = written()
    file.truncate(BAD + 1)
    with pytest.raises(OSError, match="cannot read a sector"):
        file.read_at(BAD, 1)


def test_a_power_cut_may_undo_a_cut_that_was_not_synced():
    files, file = written()
    file.truncate(0)
    survivors = [files.power_loss(Random(seed)).names["log"] for seed in range(20)]
    assert all((BAD in each.unreadable) == (len(each.data) > BAD) for each in survivors)
    assert {BAD in each.unreadable for each in survivors} == {True, False}


def test_a_synced_cut_lasts():
    files, file = written()
    file.truncate(0)
    file.write_at_end([b"b" * 4 * SECTOR_BYTES])
    file.sync()
    survivor = files.power_loss(Random(1)).names["log"]
    assert not survivor.unreadable
