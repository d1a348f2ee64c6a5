"""Damage in the unsynced end of a log: intact batches after it are kept, where other replicas can
fill the hole."""

from __future__ import annotations

from contextlib import suppress

import pytest

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.intact_tail import find_tail
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.repairable import RepairableLog
from josefine_broker.host.log.segment import LOG_SUFFIX, stem_of
from josefine_broker.records.batch import HEADER_BYTES, iter_batches
from tests.simulation.memory_files import SECTOR_BYTES, MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    NOW_MS,
    append,
    log_file,
    open_log,
    read_all,
)

CONFIG = LogConfig(index_interval_bytes=400)
BATCHES = 20
Span = tuple[int, int, int]
"""Position, size and base offset of a batch."""


def written(config: LogConfig = CONFIG) -> MemoryFiles:
    """The files of a killed process that had synced nothing of its last segment."""
    files = MemoryFiles()
    log = open_log(files, config)
    for number in range(BATCHES):
        append(log, [b"%04d" % number] * (1 + number % 3))
    log.abandon()
    return files


def spans(files: MemoryFiles, base_offset: int = 0) -> list[Span]:
    data = bytes(files.names[stem_of(DIRECTORY, base_offset) + LOG_SUFFIX].data)
    return [(at, header.size_bytes, header.base_offset) for at, header in iter_batches(data)]


def zero(files: MemoryFiles, *numbers: int) -> None:
    """Make zeros of these batches, as a lost page would."""
    data = files.names[log_file()].data
    for at, size, _ in [spans(written())[each] for each in numbers]:
        data[at : at + size] = bytes(size)


def opened(files: MemoryFiles, config: LogConfig = CONFIG) -> PartitionLog:
    """As a broker opens the log of a partition with other replicas."""
    where = files, DIRECTORY, config, NOW_MS, False
    try:
        return PartitionLog.open(*where, on_batch=lambda *_: None, keeps_tail=True)
    except (CorruptData, OSError):
        return PartitionLog.open(
            *where, on_batch=lambda *_: None, is_verified=True, is_damaged=True
        )


def repair(log: PartitionLog, files: MemoryFiles, peer: PartitionLog) -> None:
    for base in list(log.damage.found):
        made = RepairableLog(files, log).rebuild(base, LeaderEpochs())
        assert made is not None
        while (wanted := made.copy(lambda: None)) is not None:
            made.supply(b"".join(peer.read(wanted, 1, end_offset=peer.log_end_offset)))
            assert made.wanted > wanted
        assert made.finish()
        assert made.install()
        made.close()


@pytest.mark.parametrize("holes", [(0,), (7,), (3, 4, 11), (18,)])
def test_hole_before_intact_batches_is_kept_and_filled(holes: tuple[int, ...]) -> None:
    files, peer = written(), opened(written())
    zero(files, *holes)

    log = opened(files)

    assert log.log_end_offset == peer.log_end_offset
    assert log.damage.lacks_batches, "it serves nothing before it is whole"
    repair(log, files, peer)
    assert read_all(log) == read_all(peer)
    assert log.recovery_report.completeness is Completeness.COMPLETE, "its end is known"


def test_replicas_with_different_holes_have_what_the_others_lack() -> None:
    one, other = written(), written()
    zero(one, 4, 15)
    zero(other, 9, 17)
    logs = opened(one), opened(other)

    for number, (_, _, offset) in enumerate(spans(written())):
        found = []
        for log in logs:
            with suppress(KafkaError):
                found += log.read(offset, 1)
        assert found, number


def test_only_replica_is_cut_before_the_hole_as_ever() -> None:
    files = written()
    zero(files, 7)

    log = open_log(files, CONFIG)

    assert log.log_end_offset == spans(written())[7][2]
    assert not log.damage.found


def test_intact_segments_after_an_unsynced_hole_are_kept() -> None:
    config = LogConfig(index_interval_bytes=400, segment_bytes=500)
    files = MemoryFiles()
    log = open_log(files, config, schedule=lambda job: None)  # no full segment was synced
    for number in range(BATCHES):
        append(log, [b"%04d" % number])
    log.abandon()
    bases = sorted(int(name[-24:-4]) for name in files.names if name.endswith(".log"))
    assert len(bases) > 2
    del files.names[stem_of(DIRECTORY, bases[1]) + LOG_SUFFIX].data[30:]

    log = opened(files, config)

    assert log.log_end_offset == BATCHES
    assert list(log.damage.found) == [bases[1]]


def test_synced_mark_does_not_pass_a_hole() -> None:
    """Or the next start would take the hole for lost data that had been synced."""
    files = written()
    zero(files, 7)
    log = opened(files)
    assert log.recovery_report.unsynced_from == 0

    log.flush()
    log.abandon()

    log = opened(files)
    assert log.recovery_report.unsynced_from == 0
    repair(log, files, opened(written()))
    log.flush()
    assert log.state.synced.read().end == log.log_end_offset


def tail_of(files: MemoryFiles, number: int) -> int | None:
    """The end offset of what is found after this batch, from where it starts."""
    at, _, offset = spans(written())[number]
    found = find_tail(files.open(log_file()), at, offset)
    return None if found is None else found.end_offset


def test_last_batch_with_a_flipped_base_offset_is_no_tail() -> None:
    files = written()
    at = spans(files)[-1][0]
    files.names[log_file()].data[at + 6] ^= 1

    assert tail_of(files, BATCHES - 1) is None


def test_lone_batch_counts_if_the_damaged_bytes_can_contain_what_is_missing() -> None:
    files = written()
    zero(files, BATCHES - 2)
    end = spans(written())[-1][2] + 1 + (BATCHES - 1) % 3
    assert tail_of(files, BATCHES - 2) == end

    at = spans(written())[-1][0]
    files.names[log_file()].data[at + 5] ^= 1  # 65,536 offsets later

    assert tail_of(files, BATCHES - 2) is None


@pytest.mark.parametrize(
    ("more", "is_known"), [(b"", True), (b"\0" * 8, True), (b"x" * 2 * HEADER_BYTES, False)]
)
def test_end_is_known_if_at_most_an_unfinished_write_follows(more: bytes, is_known: bool) -> None:
    files = written()
    at, _, offset = spans(files)[5]
    zero(files, 5)
    files.names[log_file()].data += more

    found = find_tail(files.open(log_file()), at, offset)

    assert found is not None
    assert found.is_end_known is is_known


def test_unreadable_end_without_any_intact_batch_is_cut_off() -> None:
    """The start failed, and the only way out was to remove the whole log."""
    files = written()
    path = log_file()
    for sector in range(0, len(files.names[path].data), SECTOR_BYTES):
        files.names[path].unreadable.add(sector)

    log = opened(files)

    assert log.log_end_offset == 0
    assert log.recovery_report.completeness is Completeness.SHORTENED
