"""The checksums over what the cleaner wrote: they find what no batch's own checksum covers, they
are never wrong about an intact segment, and a log without them works as before."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.cleaned_sums import (
    BLOCK_BYTES,
    BlockSums,
    SumsWriter,
    load_sums,
    store_sums,
)
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.repairable import RepairableLog
from josefine_broker.host.log.scrub import first_damage
from josefine_broker.host.log.verify import verify_directory
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.crc import crc32c
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.cleaning import (
    COMPACT,
    CutFiles,
    Killed,
    append_keyed,
    begin_pass,
    clean,
    records_of,
)
from tests.unit.josefine_broker.host.log.support import DIRECTORY, log_file, open_log

STEM = f"{DIRECTORY}/00000000000000000000"
SUMS = f"{STEM}.sums"


def compacted(files: MemoryFiles, *, cleaned: bool = True) -> PartitionLog:
    """A log whose first segment lost every other record: a base offset may be moved by one."""
    log = open_log(files, COMPACT)
    for number in range(12):
        key = b"again" if number % 2 else b"%d" % number
        append_keyed(log, [(key, b"%04d" % number)])
    log.roll()
    log.flush()
    if cleaned:
        clean(files, log)
    files.sync_directory("")
    return log


def sums_of(files: MemoryFiles) -> BlockSums | None:
    return load_sums(files, STEM, len(files.names[log_file()].data))


def after_a_crash(files: MemoryFiles, config: LogConfig = COMPACT) -> PartitionLog:
    """Opened again where no index tells what the segments were like."""
    for name in list(files.names):
        if name.endswith((".index", ".timeindex")):
            files.remove(name)
    return open_log(files, config)


def move_a_batch_into_a_hole(files: MemoryFiles) -> int:
    """Change the second base offset of the first segment by one; returns what it was."""
    data = files.names[log_file()].data
    (_, first), (position, second), *_ = iter_batches(bytes(data))
    assert second.base_offset - first.end_offset >= 1, "there is a hole before it"
    data[position : position + 8] = (second.base_offset - 1).to_bytes(8, "big")
    return second.base_offset


def test_moved_batch_of_a_compacted_log_is_not_delivered_after_a_crash() -> None:
    files = MemoryFiles()
    compacted(files)
    move_a_batch_into_a_hole(files)
    log = after_a_crash(files)

    with pytest.raises(KafkaError) as caught:
        records_of(log)

    assert caught.value.code is ErrorCode.corrupt_message
    assert "is not what the cleaner wrote" in next(iter(log.damage.found.values())).reason


def test_moved_batch_is_found_by_scrub_and_verification_and_never_cleaned_again() -> None:
    files = MemoryFiles()
    compacted(files)
    move_a_batch_into_a_hole(files)
    log = after_a_crash(files)
    for key in (b"0", b"2", b"new"):
        append_keyed(log, [(key, b"newer")])
    log.roll()
    segment = log.cleaning.sealed()[0]

    found = first_damage(files, segment.stem, segment.summary(), None, lambda: None, is_sealed=True)
    again = begin_pass(files, log)

    assert found is not None
    assert "over all bytes" in found.reason
    assert [each.file for each in log.verify().problems] == [log_file()]
    assert [each.file for each in verify_directory(files, DIRECTORY, COMPACT).problems]
    assert again is not None
    with pytest.raises(CorruptData, match="over all bytes"):
        clean(files, log)


def test_segment_without_checksums_is_read_and_gets_them_at_its_next_cleaning() -> None:
    files = MemoryFiles()
    compacted(files)
    files.remove(SUMS)
    log = after_a_crash(files)
    before = records_of(log)

    append_keyed(log, [(b"0", b"newer")])
    log.roll()
    log.flush()
    clean(files, log)

    assert before
    assert sums_of(files) is not None
    assert log.verify().problems == ()


def test_checksums_that_cannot_be_read_count_as_none() -> None:
    files = MemoryFiles()
    compacted(files)
    whole = bytes(files.names[SUMS].data)
    for position in range(len(whole)):
        files.names[SUMS].data[position] ^= 1
        assert sums_of(files) is None
        files.names[SUMS].data[:] = whole

    assert sums_of(files) is not None


def test_checksums_of_a_segment_that_an_older_version_changed_count_as_none() -> None:
    """It does not remove a file that it does not know."""
    files = MemoryFiles()
    log = compacted(files)
    stale = bytes(files.names[SUMS].data)
    log.truncate_to(4)
    append_keyed(log, [(b"other", b"value")])
    log.close()
    files.open(SUMS, create=True).write_at_end([stale])

    again = open_log(files, COMPACT)

    assert records_of(again)[-1].value == b"value"
    assert again.verify().problems == ()


def test_truncated_segment_has_no_checksums_of_what_it_was() -> None:
    files = MemoryFiles()
    log = compacted(files)
    assert SUMS in files.names

    log.truncate_to(4)
    for number in range(4, 30):
        append_keyed(log, [(b"%d" % number, b"other")])

    assert SUMS not in files.names
    assert log.verify().problems == ()
    assert records_of(log)[-1].offset == log.log_end_offset - 1


def test_segment_that_was_cut_before_its_checksums_were_stored_gets_none() -> None:
    files = MemoryFiles()
    jobs: list[Job] = []
    compacted(files, cleaned=False)
    log = open_log(files, COMPACT, schedule=jobs.append)
    clean(files, log)

    log.truncate_to(4)
    for job in jobs:
        job()

    assert SUMS not in files.names
    assert log.verify().problems == ()


def test_pass_that_ends_at_any_step_leaves_no_checksums_of_another_content() -> None:
    steps = 0
    while True:
        files = CutFiles()
        log = compacted(files, cleaned=False)
        clean(files, log, high_watermark=7)  # so that the next pass replaces a cleaned segment
        append_keyed(log, [(b"0", b"newer")])
        log.roll()
        log.flush()
        before, files.fails_at = files.operations, files.operations + steps
        with contextlib.suppress(Killed):
            clean(files, log)
        done = not files.is_dead
        files.fails_at, files.is_dead = None, False
        again = after_a_crash(files)
        assert again.verify().problems == (), f"after step {steps} of {files.operations - before}"
        assert records_of(again)
        assert not again.damage.found
        if done:
            break
        steps += 1
    assert steps > 10


LARGE = replace(COMPACT, segment_bytes=400_000, segment_records=None)


def large(files: MemoryFiles) -> PartitionLog:
    """A cleaned segment of several blocks."""
    log = open_log(files, LARGE)
    for number in range(100):
        key = b"again" if number % 2 else b"%d" % number
        append_keyed(log, [(key, b"%04d" % number * 1_000)])
    log.roll()
    log.flush()
    clean(files, log)
    assert len(files.names[log_file()].data) > 2 * BLOCK_BYTES
    return log


def test_moved_batch_is_repaired_from_a_replica_and_the_other_blocks_stay_ours() -> None:
    files, peer_files = MemoryFiles(), MemoryFiles()
    large(files)
    peer = large(peer_files)
    intact = bytes(files.names[log_file()].data)
    move_a_batch_into_a_hole(files)
    log = after_a_crash(files, LARGE)
    log.damage.note(log._segments[0], 0, "a test")
    made = RepairableLog(files, log).rebuild(0, LeaderEpochs([(LeaderEpoch(0), 0)]))
    assert made is not None

    while (wanted := made.copy(lambda: None)) is not None or not made.finish():
        if wanted is not None:
            made.supply(b"".join(peer.read(wanted, 5_000)))
    assert made.install()
    made.close()

    assert bytes(files.names[log_file()].data) == intact
    assert made.bytes_fetched < BLOCK_BYTES + 10_000, "only what is damaged is fetched"
    sums = sums_of(files)
    assert sums is not None
    assert sums.log_crc == crc32c(intact)
    assert log.verify().problems == ()


def test_checksums_do_not_depend_on_how_the_bytes_were_written() -> None:
    rng = Random(1)
    data = rng.randbytes(3 * BLOCK_BYTES + 77)
    whole = SumsWriter()
    whole.add([data])
    for _ in range(20):
        parts, position = SumsWriter(), 0
        while position < len(data):
            size = rng.choice((1, 100, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES))
            parts.add([data[position : position + size]])
            position += size
        assert parts.sums() == whole.sums()
    assert len(whole.sums().blocks) == 4
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    store_sums(files, STEM, whole.sums())
    assert load_sums(files, STEM, len(data)) == whole.sums()


def test_only_the_blocks_that_are_damaged_are_bad() -> None:
    data = bytearray(3 * BLOCK_BYTES)
    written = SumsWriter()
    written.add([bytes(data)])
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    file = files.open(log_file(), create=True)
    data[BLOCK_BYTES + 5] ^= 1
    file.write_at_end([bytes(data)])

    sums = written.sums()

    assert [*sums.bad_blocks(file, 0, len(data))] == [BLOCK_BYTES]
    assert sums.first_bad(file, 10, 20) is None
    assert sums.first_bad(file, 10, BLOCK_BYTES + 1) == BLOCK_BYTES
    assert sums.why_not(len(data), sums.log_crc) == ""


def test_cleaned_segment_that_is_appended_to_after_a_lost_file_is_not_called_damaged() -> None:
    """The file of the newest segment is gone, so the cleaned one before it is the last again."""
    files = MemoryFiles()
    log = compacted(files)
    end_offset = log.log_end_offset
    assert SUMS in files.names
    files.remove(log_file(f"{end_offset:020d}.log"))

    log = open_log(files, replace(COMPACT, segment_bytes=10_000, segment_records=100))
    append_keyed(log, [(b"next", b"x")])
    log.roll()
    log.flush()

    assert log.segment_count == 2, "it was appended to"
    assert not log.verify().problems


def nearly_whole(files: MemoryFiles) -> PartitionLog:
    """A cleaned segment that lost its first record only, within one block."""
    log = open_log(files, COMPACT)
    for number in range(10):
        append_keyed(log, [(b"0" if number < 2 else b"%d" % number, b"%04d" % number)])
    log.roll()
    log.flush()
    clean(files, log)
    assert sums_of(files) is not None
    return log


def test_other_damage_of_each_replica_is_repaired_within_one_block() -> None:
    """Both neighbours confirm a batch in a block that is not as the cleaner wrote it."""
    disks = [MemoryFiles(), MemoryFiles()]
    logs = [nearly_whole(files) for files in disks]
    intact = bytes(disks[0].names[log_file()].data)
    places = [pos for pos, _ in iter_batches(intact)]
    for files, struck in zip(disks, (3, 7), strict=True):
        files.names[log_file()].data[places[struck] + 70] ^= 1
    for log in logs:
        log._segments[0].reads.forget()
    log, peer = logs
    log.damage.note(log._segments[0], 0, "a test")
    made = RepairableLog(disks[0], log).rebuild(0, LeaderEpochs([(LeaderEpoch(0), 0)]))
    assert made is not None

    while (wanted := made.copy(lambda: None)) is not None or not made.finish():
        if wanted is not None:
            made.supply(b"".join(peer.read(wanted, 200)))
    assert made.install()
    made.close()

    assert bytes(disks[0].names[log_file()].data) == intact
    assert log.verify().problems == ()


@pytest.mark.parametrize("byte", [7, 15], ids=["base offset", "leader epoch"])
def test_batch_in_a_damaged_block_is_not_read_if_a_neighbour_differs(byte: int) -> None:
    files = MemoryFiles()
    log = nearly_whole(files)
    data = files.names[log_file()].data
    (position, header) = list(iter_batches(bytes(data)))[4]
    data[position + byte] ^= 1
    log._segments[0].reads.forget()

    for offset in {header.base_offset, header.base_offset ^ 1}:
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 1)
        assert caught.value.code is ErrorCode.corrupt_message
