"""What recovery lets one believe of a log: see `engine/metadata/log_completeness.py`."""

from dataclasses import replace
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.batch import iter_batches
from tests.simulation.memory_files import MemoryFile, MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    append,
    log_file,
    open_log,
    read_all,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)
COMPLETE, SHORTENED, MISSING = Completeness.COMPLETE, Completeness.SHORTENED, Completeness.MISSING


def filled(files: MemoryFiles, batches: int = 6, config: LogConfig | None = None) -> PartitionLog:
    log = open_log(files, config)
    for n in range(batches):
        append(log, [b"%d" % n] * (1 + n % 3), leader_epoch=n // 2)
    return log


def flip(files: MemoryFiles, bit: int, name: str = log_file()) -> None:
    files.names[name].data[bit // 8] ^= 1 << bit % 8


def reopened(files: MemoryFiles, config: LogConfig | None = None) -> Completeness:
    return open_log(files, config).recovery_report.completeness


def test_an_unfinished_last_write_leaves_the_log_complete() -> None:
    """Nothing was confirmed with it: every length that the last batch can be cut to."""
    files = MemoryFiles()
    log = filled(files)
    kept = log.size_bytes
    append(log, [b"last"] * 3, leader_epoch=2)
    written = bytes(files.names[log_file()].data)

    for size in range(kept, len(written) + 1):
        files.names[log_file()].data[:] = written[:size]
        assert reopened(files) is COMPLETE


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_one_flipped_bit_anywhere_is_never_taken_for_an_unfinished_write(
    data: st.DataObject,
) -> None:
    """In the length of a batch too, which then seems to reach past the end of the file."""
    files = MemoryFiles()
    log = filled(files)
    before = read_all(log)
    flip(files, data.draw(st.integers(0, log.size_bytes * 8 - 1)))

    again = open_log(files)

    is_whole = read_all(again) == before  # of the last batch, a leader epoch that grew is no news
    assert again.recovery_report.completeness is (COMPLETE if is_whole else SHORTENED)


def test_every_flipped_bit_of_a_last_length_shortens() -> None:
    files = MemoryFiles()
    log = filled(files)
    start = log.size_bytes
    append(log, [b"last"], leader_epoch=2)
    whole = bytes(files.names[log_file()].data)

    for bit in range(32):
        files.names[log_file()].data[:] = whole
        files.names.pop(f"{DIRECTORY}/completeness.checkpoint", None)
        flip(files, (start + 8) * 8 + bit)
        assert reopened(files) is SHORTENED, bit


def test_a_cut_in_the_middle_of_the_log_shortens_it() -> None:
    files = MemoryFiles()
    log = filled(files)
    data = files.names[log_file()].data
    del data[log.size_bytes // 2 : log.size_bytes // 2 + 30]

    assert reopened(files) is SHORTENED


@pytest.mark.parametrize("bit", range(16, 40))
def test_base_offset_that_flipped_upwards_is_found_where_compaction_may_leave_holes(
    bit: int,
) -> None:
    """It was taken for one after a hole, and the log seemed to end far behind its real end."""
    files = MemoryFiles()
    compacted = replace(SMALL, cleanup_policy=frozenset(("compact",)), segment_bytes=10_000)
    log = filled(files, config=compacted)
    position, header = list(iter_batches(bytes(files.names[log_file()].data)))[3]
    files.names[log_file()].data[position + 7 - bit // 8] ^= 1 << bit % 8

    again = open_log(files, compacted)

    assert again.log_end_offset == header.base_offset
    assert again.recovery_report.completeness is SHORTENED
    assert log.log_end_offset > header.base_offset


def test_batch_after_a_real_hole_is_kept_before_an_unfinished_write() -> None:
    files = MemoryFiles()
    compacted = replace(SMALL, cleanup_policy=frozenset(("compact",)), segment_bytes=10_000)
    log = filled(files, config=compacted)
    data = files.names[log_file()].data
    (start, _), *_, (last, _) = iter_batches(bytes(data))
    second = list(iter_batches(bytes(data)))[1][0]
    del data[second:last]
    data += bytes(200)

    again = open_log(files, compacted)

    assert start == 0
    assert again.log_end_offset == log.log_end_offset


def test_segments_behind_damage_are_gone_with_it() -> None:
    files = MemoryFiles()
    filled(files, batches=20, config=SMALL)
    for path in [each for each in files.names if "index" in each or "synced" in each]:
        del files.names[path]  # none of them was synced
    flip(files, 8 * 200)

    assert reopened(files, SMALL) is SHORTENED


def test_a_cut_is_remembered_until_the_metadata_has_heard_of_it() -> None:
    """A crash between the cut and the registration must not make the shorter log look whole."""
    files = MemoryFiles()
    log = filled(files)
    flip(files, log.size_bytes * 4)

    assert reopened(files) is SHORTENED
    assert reopened(files) is SHORTENED
    open_log(files).state.forget_completeness()
    assert reopened(files) is COMPLETE


def test_the_note_is_durable_before_the_cut_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Power may fail at any moment of a recovery: of note and cut, only the note may be there."""
    files = MemoryFiles()
    log = filled(files)
    log.flush()
    files.remove(f"{DIRECTORY}/synced.checkpoint")
    flip(files, log.size_bytes * 4)
    notes: list[bool] = []
    truncate = MemoryFile.truncate

    def watching(file: MemoryFile, size: int) -> None:
        notes.append(f"{DIRECTORY}/completeness.checkpoint" in files.durable_names)
        truncate(file, size)

    monkeypatch.setattr(MemoryFile, "truncate", watching)
    reopened(files)

    assert notes == [True]


def test_missing_first_segments_are_told_and_deleted_ones_are_not_missed() -> None:
    files = MemoryFiles()
    log = filled(files, batches=20, config=SMALL)
    log.delete_before(log._segments.base_offsets[1])
    assert reopened(files, SMALL) is COMPLETE

    del files.names[min(path for path in files.names if path.endswith(".log"))]
    files.remove(f"{DIRECTORY}/synced.checkpoint")
    assert reopened(files, SMALL) is MISSING


def test_a_log_without_any_segment_is_missing_unless_it_was_just_being_made() -> None:
    files = MemoryFiles()
    files.open(f"{DIRECTORY}/partition.new.json", create=True)
    assert reopened(files) is COMPLETE

    files.open(f"{DIRECTORY}/partition.json", create=True)
    del files.names[log_file()]
    assert reopened(files) is MISSING


def test_claims_are_a_default_and_its_exceptions() -> None:
    key = (uuid4(), 3)
    claims = LogClaims(logs={key: SHORTENED})

    assert claims.of(key) is SHORTENED
    assert claims.of((key[0], 4)) is COMPLETE
    assert not claims.are_complete
    assert LogClaims().are_complete
    assert not LogClaims(default=MISSING).are_complete


def test_what_is_worse_wins() -> None:
    assert COMPLETE.or_worse(SHORTENED) is SHORTENED
    assert MISSING.or_worse(SHORTENED) is MISSING
    assert [each for each in Completeness if each.may_lead] == [COMPLETE, Completeness.UNSYNCED]


def test_leader_epochs_that_fall_are_no_log_of_ours() -> None:
    """Outside every checksum: a flip is noticed where the next batch is of an older epoch."""
    files = MemoryFiles()
    log = open_log(files)
    append(log, [b"a"], leader_epoch=1)
    start = log.size_bytes
    append(log, [b"b"], leader_epoch=1)
    append(log, [b"c"], leader_epoch=1)
    files.names[log_file()].data[start + 15] = 7

    again = open_log(files)

    assert [value for _, value in read_all(again)] == [b"a", b"b"]
    assert again.recovery_report.completeness is SHORTENED
