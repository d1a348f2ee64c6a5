"""The log through power cuts, kills and clean restarts in random order, against a model.

A failure prints the seed: `check_seed(seed)` replays it.
"""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk import synced_mark
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_manager import LogManager
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import append, open_in, read_all

TP = TopicPartition("orders", 0)
TOPIC_ID = TopicId(UUID(int=1))

REGRESSIONS = (1, 7, 18, 183, 294, 451, 481, 1857, 29067, 34452, 1_047_219)
"""Seeds that failed once."""


class World:
    """A log, and what must be in it: `records` are all written, `durable_end` those synced."""

    def __init__(self, rng: Random, flush_messages: int | None) -> None:
        self.rng = rng
        self.config = LogConfig(
            segment_bytes=rng.choice((300, 1000, 4000)),
            index_interval_bytes=rng.choice((1, 100, 1000)),
            segment_records=rng.choice((None, 7)),
            flush_messages=flush_messages,
        )
        self.files = MemoryFiles()
        self.records: list[bytes] = []
        self.durable_end = 0
        self.start = 0
        self.jobs: list[Job] = []
        self.open(clean=True)

    def open(self, *, clean: bool = False) -> None:
        self.jobs = []
        self.manager = LogManager(self.files, schedule=self.jobs.append)
        assert self.manager.clean_shutdown or not clean
        self.log = open_in(self.manager, TP, TOPIC_ID, self.config)

    def step(self) -> None:
        kinds = (
            self.append, self.flush, self.delete, self.truncate, self.work, self.restart,
            self.kill, self.power_loss,
        )  # fmt: skip
        self.rng.choices(kinds, weights=(30, 2, 2, 1, 5, 1, 2, 2))[0]()

    def work(self) -> None:
        """The flusher gets to run some of its jobs, in their order."""
        count = self.rng.randint(0, len(self.jobs))
        for job in self.jobs[:count]:
            job()
        del self.jobs[:count]

    def append(self) -> None:
        values = [self.rng.randbytes(self.rng.randrange(60)) for _ in range(self.rng.randint(1, 4))]
        assert append(self.log, values) == len(self.records)
        self.records += values
        if self.config.flush_messages == 1:
            self.durable_end = len(self.records)

    def flush(self) -> None:
        self.log.flush()
        self.durable_end = len(self.records)

    def delete(self) -> None:
        self.start = self.rng.randint(self.start, len(self.records))
        self.log.delete_before(self.start)

    def truncate(self) -> None:
        offset = self.rng.randint(self.start, len(self.records))
        self.log.truncate_to(offset)
        end = self.log.log_end_offset
        if self.log.log_start_offset != self.start:
            assert self.log.log_start_offset == end == offset
            self.start = end
        assert self.start <= end <= offset
        del self.records[end:]
        self.durable_end = min(self.durable_end, end)

    def restart(self) -> None:
        for job in self.jobs:
            job()
        self.manager.close()
        self.durable_end = len(self.records)
        self.open(clean=True)
        assert self.log.recovery_report.line is None

    def kill(self) -> None:
        self.log.abandon()
        self.open()
        assert self.log.recovery_report.bytes_cut == 0
        assert self.log.log_end_offset == len(self.records)

    def power_loss(self) -> None:
        self.files = self.files.power_loss(self.rng)
        self.open()
        end = self.log.log_end_offset
        assert self.durable_end <= end <= len(self.records)
        del self.records[end:]

    def check(self, log: PartitionLog) -> None:
        assert log.log_start_offset == self.start
        assert log.log_end_offset == len(self.records)
        expected = list(enumerate(self.records))[self.start :]
        assert read_all(log, bytes_max=self.rng.choice((1, 200, 10_000))) == expected
        assert log.verify().problems == ()


def check_seed(seed: int, flush_messages: int | None = None) -> None:
    rng = Random(seed)
    world = World(rng, flush_messages)
    for _ in range(60):
        world.step()
        if rng.random() < 0.2:
            world.check(world.log)
    world.check(world.log)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_power_loss_with_flush_messages_1_loses_nothing_acknowledged(seed: int) -> None:
    """Checklist row 30."""
    check_seed(seed, flush_messages=1)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_power_loss_keeps_what_was_flushed_and_a_whole_prefix_of_the_rest(seed: int) -> None:
    """Checklist rows 30 and 33."""
    check_seed(seed)


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_seed_that_failed_once(seed: int) -> None:
    check_seed(seed)
    check_seed(seed, flush_messages=1)


def test_power_loss_never_makes_the_synced_mark_say_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would lock a sound log out. The file that it is in is begun anew all the time here."""
    monkeypatch.setattr(synced_mark, "ENTRIES_MAX", 2)
    for seed in range(150):
        check_seed(seed)
        check_seed(seed, flush_messages=1)


def test_memory_files_lose_unsynced_writes() -> None:
    files = MemoryFiles()
    file = files.open("a", create=True)
    file.write_at_end((b"synced",))
    file.sync()
    files.sync_directory("")
    file.write_at_end((b"not synced" * 200,))

    found = {bytes(files.power_loss(Random(seed)).names["a"].data) for seed in range(50)}

    assert all(data.startswith(b"synced") for data in found)
    assert len(found) > 10
