"""Damage of a log is found by the first read, noted, and never returned to a reader."""

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.read_state import RANGES_MAX, ReadState
from josefine_broker.host.log.repairable import RepairableLog
from josefine_broker.records.batch import HEADER_BYTES, iter_batches
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    append,
    log_file,
    open_log,
    read_all,
)

SMALL = LogConfig(segment_bytes=1_000)


def filled(files: MemoryFiles, batches: int = 60) -> PartitionLog:
    """A log of several segments, one record per batch."""
    log = open_log(files, SMALL)
    for number in range(batches):
        append(log, [b"%04d" % number])
    return log


def flip(files: MemoryFiles, position: int, name: str = "00000000000000000000.log") -> None:
    files.names[log_file(name)].data[position] ^= 1


def batch_bytes(log: PartitionLog) -> int:
    return len(log.read(0, 1)[0])


@pytest.mark.parametrize(
    "byte", [3, 10, 16, 20, 30, HEADER_BYTES + 2], ids=lambda each: f"byte {each}"
)
def test_damaged_batch_is_never_returned(byte: int) -> None:
    files = MemoryFiles()
    size = batch_bytes(filled(files))
    files = MemoryFiles()
    log = filled(files)
    flip(files, 3 * size + byte)

    buffers = log.read(0, 64 * 1024)

    assert [header.base_offset for buffer in buffers for _, header in iter_batches(buffer)] == [
        0,
        1,
        2,
    ]
    with pytest.raises(KafkaError) as raised:
        log.read(3, 64 * 1024)
    assert raised.value.code is ErrorCode.corrupt_message


def test_damage_is_noted_once_with_its_segment_and_offset() -> None:
    files = MemoryFiles()
    log = filled(files)
    flip(files, 3 * batch_bytes(filled(MemoryFiles())) + HEADER_BYTES + 2)
    for _ in range(2):
        with pytest.raises(KafkaError):
            log.read(3, 64 * 1024)

    (damage,) = log.damage.found.values()

    assert (damage.base_offset, damage.offset) == (0, 3)
    assert damage.end_offset > 3
    assert "damaged at byte" in damage.reason


def test_intact_batches_of_a_damaged_segment_stay_readable() -> None:
    files = MemoryFiles()
    log = filled(files)
    flip(files, 3 * batch_bytes(filled(MemoryFiles())) + HEADER_BYTES + 2)
    with pytest.raises(KafkaError):
        log.read(3, 64 * 1024)

    buffers = log.read(4, 64 * 1024)

    assert next(iter_batches(buffers[0]))[1].base_offset == 4
    assert log.log_end_offset == 60


def test_file_that_is_gone_is_damage_not_a_failure_of_the_disk() -> None:
    files = MemoryFiles()
    log = filled(files)
    read_all(log)  # the first segment cools: its file is opened again
    del files.names[log_file()]

    with pytest.raises(KafkaError) as raised:
        log.read(0, 1_000)

    assert raised.value.code is ErrorCode.corrupt_message
    assert 0 in log.damage.found
    assert not log.failure


def test_shortened_file_is_damage() -> None:
    files = MemoryFiles()
    log = filled(files)
    del files.names[log_file()].data[100:]

    read = [header.base_offset for each in log.read(0, 1_000) for _, header in iter_batches(each)]
    with pytest.raises(KafkaError):
        log.read(read[-1] + 1, 1_000)

    assert read[0] == 0
    assert 0 in log.damage.found


def test_damage_of_a_range_that_was_read_is_found_once_its_segment_cooled() -> None:
    files = MemoryFiles()
    log = filled(files)
    assert len(read_all(log)) == 60
    flip(files, HEADER_BYTES + 2)

    with pytest.raises(KafkaError):
        log.read(0, 1_000)


def test_damaged_index_is_rebuilt_without_a_note() -> None:
    files = MemoryFiles()
    log = filled(files)
    read_all(log)
    flip(files, 90, "00000000000000000000.index")

    assert len(read_all(log)) == 60
    assert not log.damage.found


def test_failed_rebuild_of_an_index_leaves_the_segment_as_it_was() -> None:
    files = MemoryFiles()
    log = filled(files)
    read_all(log)
    flip(files, 90, "00000000000000000000.index")
    flip(files, HEADER_BYTES + 2)
    with pytest.raises(KafkaError):
        log.read(0, 1_000)

    assert log.log_end_offset == 60
    buffers = log.read(20, 1_000)
    assert next(iter_batches(buffers[0]))[1].base_offset == 20


def test_unreadable_sector_met_by_the_rebuild_of_an_index_is_damage() -> None:
    files = MemoryFiles()
    log = filled(files)
    read_all(log)
    log._segments[0].cool()
    files.names[f"{DIRECTORY}/00000000000000000000.index"].data[90:] = b"garbage"
    files.names[log_file()].unreadable.add(0)

    with pytest.raises(KafkaError) as raised:
        log.read(5, 1_000)

    assert raised.value.code is ErrorCode.corrupt_message
    assert log.damage.found


def test_verified_ranges_join_and_stay_bounded() -> None:
    ranges = ReadState()
    for start in range(0, 4 * RANGES_MAX, 2):
        ranges.add(start, start + 1)
    ranges.add(200, 210)

    assert ranges.covers(200, 211)
    assert not ranges.covers(199, 201)
    assert not ranges.covers(0, 1), "the oldest ranges are forgotten first"
    ranges.forget()
    assert not ranges.covers(200, 201)


def test_batch_after_damaged_ones_is_not_returned_for_their_offsets() -> None:
    """A damaged length led a search to the end, which was remembered as the place of an offset; a
    batch that was appended there later was returned for it."""
    files = MemoryFiles()
    log = open_log(files)
    for number in range(10):
        append(log, [b"%04d" % number])
    size = batch_bytes(log)
    log._segments[0].reads.forget()
    flip(files, 3 * size + 9)  # the batch seems to end past the file

    for end_offset in (5, 10):
        log.read(0, 1 << 20, end_offset=end_offset)
    append(log, [b"more"])
    log.read(10, 1 << 20)

    found = log.read(5, 1 << 20)
    assert next(header.base_offset for each in found for _, header in iter_batches(each)) == 5


@pytest.mark.parametrize("offset", [0, 3])
def test_later_batch_in_the_place_of_another_is_damage(offset: int) -> None:
    """A misdirected write: the batch is intact, and its neighbours are not asked by this read."""
    files = MemoryFiles()
    log = filled(files)
    size, data = batch_bytes(filled(MemoryFiles())), files.names[log_file()].data
    data[offset * size : (offset + 1) * size] = data[9 * size : 10 * size]

    with pytest.raises(KafkaError) as raised:
        log.read(offset, size)

    assert raised.value.code is ErrorCode.corrupt_message
    (damage,) = log.damage.found.values()
    assert damage.offset == offset


def test_segment_that_was_cut_is_known_by_the_checksum_of_intact_bytes() -> None:
    """The checksum of damaged bytes never fits again, so the repair failed for ever."""
    files = MemoryFiles()
    log = open_log(files)
    for number in range(10):
        append(log, [b"%04d" % number])
    flip(files, 2 * batch_bytes(log) + HEADER_BYTES + 2)

    log.truncate_to(6)

    ((_, damage),) = log.damage.found.items()
    assert not damage.is_checksum_known


def test_unknown_checksum_stays_unknown_when_the_damage_is_found_again() -> None:
    files = MemoryFiles()
    log = filled(files)
    segment = log._segments[0]
    log.damage.note(segment, 0, "a test", is_checksum_known=False)
    log.damage.forget(0)

    log.damage.note(segment, 0, "found again")

    assert not log.damage.found[0].is_checksum_known


def test_damage_that_was_cut_off_is_forgotten() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(10):
        append(log, [b"%04d" % number])
    flip(files, 8 * batch_bytes(log) + HEADER_BYTES + 2)
    with pytest.raises(KafkaError):
        log.read(8, 1)

    log.truncate_to(8)

    assert not log.damage.found


def test_repair_of_a_full_segment_whose_sync_failed_asks_for_it_again() -> None:
    """After a full disk only the next roll had tried again, which may never come."""
    files = MemoryFiles()
    jobs: list[Job] = []
    log = open_log(files, SMALL, schedule=jobs.append)
    for number in range(30):
        append(log, [b"%04d" % number])
    jobs.clear()  # they failed
    log.damage.note(log._segments[0], 0, "a test")
    damaged = RepairableLog(files, log)
    assert damaged.rebuild(0, LeaderEpochs()) is None

    for job in jobs:
        job()

    assert damaged.rebuild(0, LeaderEpochs()) is not None
