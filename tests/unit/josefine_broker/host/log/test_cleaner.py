"""Which log is cleaned when, by the real passes over logs in memory. Checklist row 38."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.host.log.cleaner import (
    TRY_AGAIN_MS_MAX,
    TRY_AGAIN_MS_MIN,
    Candidate,
    Cleaner,
    CleanerSettings,
)
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.pace import STEP_S, Pace
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.world import ManualClock
from tests.unit.josefine_broker.host.log.cleaning import COMPACT, append_keyed, records_of
from tests.unit.josefine_broker.host.log.support import NOW_MS

T = TypeVar("T")
BACKOFF_MS = 1_000


class LateWorker:
    """A worker whose jobs wait until the test runs them."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def submit(
        self,
        job: Callable[[Callable[[], None]], T],
        is_wanted: Callable[[], bool],
        done: Callable[[T | None], None],
    ) -> None:
        def breathe() -> None:
            if not is_wanted():
                raise KafkaError(ErrorCode.request_timed_out, "nobody wants it")

        self.jobs.append(lambda: done(job(breathe)))

    def on_loop(self, ask: Callable[[], T]) -> T:
        return ask()


class World:
    """Some logs of compacted topics, and their cleaner."""

    def __init__(self, logs: int = 2, **settings: int) -> None:
        self.files = MemoryFiles()
        self.clock = ManualClock()
        self.worker = LateWorker()
        self.may_clean = True
        self.logs = {TopicPartition("t", n): self.open(n) for n in range(logs)}
        self.high_watermark = 10**6
        self.cleaner = Cleaner(
            self.files,
            self.candidates,
            self.worker,
            self.clock,
            CleanerSettings(backoff_ms=BACKOFF_MS, map_bytes_max=1 << 16, **settings),
            may_clean=lambda: self.may_clean,
        )

    def open(self, number: int) -> PartitionLog:
        return PartitionLog.open(self.files, f"t-{number}", COMPACT, NOW_MS, False)

    def candidates(self) -> Iterator[Candidate | None]:
        yield None
        for tp, log in self.logs.items():
            partition = Partition(ProducerState(), LeaderEpochs(), self.high_watermark)
            yield Candidate(tp, partition, log)

    def write(self, number: int, batches: int) -> None:
        for n in range(batches):
            append_keyed(self.logs[TopicPartition("t", number)], [(b"k", b"%d" % n)])

    def step(self, *, after_ms: int = 0) -> int:
        """The cleaner's duty; how many passes wait to be run."""
        self.clock.elapsed_ms += after_ms
        for _ in self.cleaner.step():
            pass
        return len(self.worker.jobs)

    def work(self) -> None:
        self.worker.jobs.pop(0)()

    def count(self, number: int) -> int:
        return len(records_of(self.logs[TopicPartition("t", number)]))


def test_dirtiest_log_is_cleaned_first_and_one_at_a_time() -> None:
    world = World()
    world.write(0, 30)
    world.step()
    world.work()
    world.write(0, 36)
    world.write(1, 30)
    before = world.count(0)

    assert world.step() == world.step() == 1
    world.work()
    assert world.count(1) < 10
    assert world.count(0) == before
    assert world.step() == 1, "at once, not after the backoff"
    world.work()
    assert world.count(0) < 10
    assert world.step() == 0
    assert world.cleaner.stats.passes == 3
    assert world.cleaner.stats.records_removed > 80


def test_logs_are_looked_at_every_backoff() -> None:
    world = World()
    assert world.step() == 0
    world.write(0, 30)

    assert world.step(after_ms=BACKOFF_MS - 1) == 0
    assert world.step(after_ms=1) == 1


def test_nothing_is_cleaned_while_the_broker_must_not() -> None:
    """Its disk is full, or a broker of the cluster does not know what a cleaner leaves behind."""
    world = World()
    world.write(0, 30)
    world.may_clean = False
    assert world.step() == 0

    world.may_clean = True
    assert world.step() == 1


def test_nothing_is_cleaned_past_the_high_watermark() -> None:
    world = World()
    world.write(0, 30)
    world.high_watermark = 5
    assert world.step() == 0

    world.high_watermark = 6
    assert world.step(after_ms=BACKOFF_MS) == 1


def test_log_that_cannot_be_cleaned_is_tried_again_later_and_later() -> None:
    world = World(1)
    world.write(0, 30)
    wait_ms, waits = TRY_AGAIN_MS_MIN, []
    for _ in range(9):
        assert world.step() == 1
        world.files.space_bytes = 0
        world.work()
        world.files.space_bytes = None
        assert world.step(after_ms=wait_ms - 1) == 0
        world.clock.elapsed_ms += BACKOFF_MS
        waits.append(wait_ms)
        wait_ms = min(2 * wait_ms, TRY_AGAIN_MS_MAX)
    assert waits[-1] == TRY_AGAIN_MS_MAX
    assert world.cleaner.stats.passes_failed == 9
    assert world.cleaner.damaged == {}

    assert world.step() == 1
    world.work()
    world.write(0, 30)
    assert world.step() == 1, "it was cleaned, and is not waited for any more"


def test_damaged_log_is_verified_and_cleaned_again_once_it_is_repaired() -> None:
    world = World()
    tp = TopicPartition("t", 0)
    reported: list[TopicPartition] = []
    world.cleaner._on_damage = reported.append
    world.write(0, 30)
    log = world.logs[tp]
    data = world.files.names[f"t-0/{0:020d}.log"].data
    data[65] ^= 1
    world.step()
    world.work()

    assert "CRC" in world.cleaner.damaged[tp]
    assert reported == [tp]
    log.damage.note(log.cleaning.sealed()[0], 0, "found by the scrub")
    assert world.step(after_ms=10 * TRY_AGAIN_MS_MAX) == 0
    data[65] ^= 1
    log.damage.forget(0)
    assert world.step(after_ms=10 * TRY_AGAIN_MS_MAX) == 1
    world.work()
    assert world.cleaner.damaged == {}


def test_pass_ends_when_the_topic_is_not_compacted_any_more() -> None:
    world = World(1)
    world.write(0, 600)
    before = world.count(0)
    world.step()
    log = world.logs[TopicPartition("t", 0)]
    log.config = replace(COMPACT, cleanup_policy=frozenset({"delete"}))

    world.work()

    assert world.count(0) == before
    assert world.cleaner.stats.passes_failed == 0


def test_segment_that_is_written_is_closed_after_max_compaction_lag() -> None:
    """Else a quiet topic would keep what was replaced for ever."""
    world = World(1)
    log = world.logs[TopicPartition("t", 0)]
    log.config = replace(COMPACT, max_compaction_lag_ms=500, min_cleanable_dirty_ratio=1.0)
    for n in range(3):
        append_keyed(log, [(b"k", b"%d" % n)], now_ms=world.clock.now_ms())

    assert world.step(after_ms=499) == 0
    assert log.segment_count == 1
    world.clock.elapsed_ms += BACKOFF_MS
    assert world.step() == 1
    world.work()
    assert world.count(0) == 1


def test_log_that_failed_is_not_cleaned() -> None:
    world = World(1)
    world.write(0, 30)
    world.logs[TopicPartition("t", 0)].abandon()

    assert world.step() == 0


class Sleeper:
    """Time that passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.longest_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.longest_s = max(self.longest_s, seconds)
        self.now_s += seconds


@pytest.mark.parametrize("piece", [10, 1_000, 50_000])
def test_pace_holds_to_the_bytes_a_second(piece: int) -> None:
    sleeper, breaths = Sleeper(), [0]

    def breathe() -> None:
        breaths[0] += 1

    pace = Pace(10_000, breathe, monotonic_s=lambda: sleeper.now_s, sleep=sleeper.sleep)
    for _ in range(200_000 // piece):
        pace.moved(piece)

    assert 19 <= sleeper.now_s - 50 <= 21
    assert sleeper.longest_s <= STEP_S
    assert breaths[0] >= 20 / STEP_S - 1


def test_pace_saves_nothing_up_while_nothing_moves() -> None:
    sleeper = Sleeper()
    pace = Pace(1_000, lambda: None, monotonic_s=lambda: sleeper.now_s, sleep=sleeper.sleep)
    pace.moved(10)
    sleeper.now_s = 1_000.0

    pace.moved(1_000)

    assert sleeper.now_s >= 1_000.9


def test_pace_without_a_limit_waits_for_nothing() -> None:
    pace = Pace(None, lambda: None, sleep=lambda seconds: pytest.fail("slept"))

    pace.moved(10**12)


def test_disk_without_room_is_an_error_of_the_pass_alone() -> None:
    world = World(1)
    world.write(0, 30)
    before = world.count(0)
    cleaner = Cleaner(
        world.files,
        world.candidates,
        world.worker,
        world.clock,
        CleanerSettings(),
        room_bytes=lambda: 0,
    )
    for _ in cleaner.step():
        pass

    world.work()

    assert (cleaner.stats.passes, cleaner.stats.passes_failed) == (0, 1)
    assert world.count(0) == before
