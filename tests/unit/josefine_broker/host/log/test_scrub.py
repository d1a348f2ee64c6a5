"""The scrub finds damage before a reader does, once per round, and continues after a restart."""

import time
from collections.abc import Callable
from uuid import UUID

import pytest

from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.repair.scrub_plan import ScrubProgress
from josefine_broker.engine.ports import work_at_once
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.pace import STEP_S
from josefine_broker.host.log.scrub import (
    BATCH_COST_BYTES,
    STORE_MS,
    Scrub,
    ScrubSettings,
    first_damage,
)
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import DIRECTORY, append, open_in, open_log

TP, ID = TopicPartition("orders", 0), TopicId(UUID(int=1))
WEEK_MS = 604_800_000
FIRST = f"{DIRECTORY}/00000000000000000000"


class ManualClock:
    """Moves when the test says so."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def a_log(files: MemoryFiles) -> tuple[LogManager, PartitionLog, ManualClock]:
    clock, manager = ManualClock(), LogManager(files)
    log = open_in(manager, TP, ID, LogConfig(segment_bytes=1_000), clock.now_ms())
    for number in range(60):
        append(log, [b"%04d" % number])
    return manager, log, clock


def a_scrub(manager: LogManager, clock: ManualClock) -> Scrub:
    return Scrub(manager, work_at_once, clock, ScrubSettings(bytes_per_second_max=1 << 40))


def flip(files: MemoryFiles, path: str, byte: int) -> None:
    files.names[path].data[byte] ^= 1


@pytest.mark.parametrize(
    ("path", "byte"),
    [(".log", 70), (".log", 7), (".log", 15), (".index", 90), (".timeindex", 90)],
    ids=["record", "base offset", "leader epoch", "index", "time index"],
)
def test_any_flipped_bit_of_a_sealed_segment_is_found(path: str, byte: int) -> None:
    files = MemoryFiles()
    manager, log, clock = a_log(files)
    flip(files, FIRST + path, byte)

    a_scrub(manager, clock).step()

    assert list(log.damage.found) == [0]


@pytest.mark.parametrize(
    "harm",
    [
        lambda files: files.names.pop(f"{FIRST}.log"),
        lambda files: files.names[f"{FIRST}.log"].data.clear(),
        lambda files: files.names[f"{FIRST}.log"].data.__delitem__(slice(100, None)),
    ],
    ids=["missing", "emptied", "shortened"],
)
def test_file_that_is_not_whole_is_found(harm: Callable[[MemoryFiles], object]) -> None:
    files = MemoryFiles()
    manager, log, clock = a_log(files)
    harm(files)

    a_scrub(manager, clock).step()

    assert list(log.damage.found) == [0]


def test_intact_log_is_read_once_per_round() -> None:
    manager, log, clock = a_log(MemoryFiles())
    scrub = a_scrub(manager, clock)
    scrub.step()
    sealed = sum(each.size_bytes for each in log.cleaning.sealed())
    assert log.damage.every.bytes_verified == sealed
    scrub.step()

    assert log.damage.every.bytes_verified == sealed
    clock.ms += WEEK_MS
    scrub.step()
    assert log.damage.every.bytes_verified == 2 * sealed
    assert not log.damage.found


def test_round_continues_after_a_restart_where_it_was() -> None:
    files = MemoryFiles()
    manager, log, clock = a_log(files)
    scrub = a_scrub(manager, clock)
    scrub.progress = scrub.progress.passed(TP, log.cleaning.sealed()[1].end_offset)
    clock.ms += STORE_MS
    scrub.store()
    flip(files, f"{FIRST}.log", 70)

    again = a_scrub(manager, clock)
    again.step()

    assert not log.damage.found, "the first segment was read before the restart"
    assert again.progress.is_over


def test_damaged_progress_means_that_everything_is_read_again() -> None:
    files = MemoryFiles()
    manager, _log, clock = a_log(files)
    a_scrub(manager, clock).store()
    files.names["scrub.checkpoint"].data[-1] ^= 1

    assert a_scrub(manager, clock).progress == ScrubProgress.new(clock.now_ms())


def test_verify_now_reads_the_active_segment_too() -> None:
    files = MemoryFiles()
    manager, log, clock = a_log(files)
    scrub = a_scrub(manager, clock)
    scrub.step()
    active = max(name for name in files.names if name.endswith(".log"))
    flip(files, active, 70)
    scrub.step()
    assert not log.damage.found

    scrub.verify_now([TP])

    assert [log.damage.is_active(base) for base in log.damage.found] == [True]
    assert scrub.asked_left == 0


def test_oldest_unverified_byte_is_as_old_as_the_previous_round() -> None:
    progress = ScrubProgress.new(1_000)
    assert progress.oldest_ms(5_000) == 4_000
    progress = progress.over().next_round(11_000, 10_000)

    assert progress.oldest_ms(12_000) == 11_000
    assert progress.over().oldest_ms(12_000) == 1_000
    assert ScrubProgress.from_bytes(progress.passed(TP, 7).to_bytes()) == progress.passed(TP, 7)


def test_many_small_batches_take_no_more_of_the_processor_than_their_number_allows() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for _ in range(200):
        append(log, [b"v"])
    segment = log._segments[0]
    began_s = time.monotonic()

    first_damage(files, segment.stem, segment.summary(), 1_000_000, lambda: None, is_sealed=False)

    assert time.monotonic() - began_s > 200 * BATCH_COST_BYTES / 1_000_000 - STEP_S
