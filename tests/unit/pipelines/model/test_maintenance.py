"""When a table's chores are due, and what becomes of those that fail or take too long."""

from __future__ import annotations

import threading
import time

import pytest

from pipelines.base.errors import ConfigError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.model.maintenance import Chore, Upkeep, checkpoint_settings
from pipelines.sinks.delta_maintenance import Group, Keeper
from pipelines.transforms.analysis_errors import refuse_no_layout
from tests.unit.pipelines.config.test_validate import GOOD

DEADLINE_S = 30
OPTIMIZE = Upkeep(chore=Chore.OPTIMIZE, every=100, within_ms=30_000)
LONG = Upkeep(chore=Chore.OPTIMIZE, every=1, within_ms=3_600_000)
SHORT = Upkeep(chore=Chore.VACUUM, every=1, within_ms=1)
WORDS = """\
mode: append, cluster_by: id,
    optimize: { every: 100 batches, within: 30s }, vacuum: { every: 1 batch, keep: 240h } }
"""


@pytest.mark.parametrize(
    ("every_ms", "commits"),
    [(1, "100"), (1_000, "100"), (3_000, "34"), (5_000, "20"), (9_999, "11")],
)
def test_new_table_has_a_checkpoint_of_its_log_each_100_s_and_100_commits_at_most(
    every_ms, commits
):
    assert checkpoint_settings(every_ms) == (("delta.checkpointInterval", commits),)


@pytest.mark.parametrize("every_ms", [None, 10_000, 3_600_000])
def test_rare_commits_and_a_run_with_an_end_keep_deltas_own_interval(every_ms):
    assert checkpoint_settings(every_ms) == ()


class Jobs:
    """What a chore runs, and who may end it."""

    def __init__(self):
        self.begun = self.ended = self.stopping = False
        self.told_to_end = threading.Event()
        self.may_end = threading.Event()

    def keeper(self, do, *upkeep):
        group = Group(begin=self.begin, end=self.told_to_end.set)
        return Keeper(upkeep, do, lambda: group, lambda: self.stopping)

    def begin(self):
        self.begun = True

    def until_told(self, upkeep):
        assert self.told_to_end.wait(DEADLINE_S)
        self.ended = True

    def until_it_may(self, upkeep):
        assert self.may_end.wait(DEADLINE_S)


@pytest.fixture
def jobs():
    jobs = Jobs()
    yield jobs
    jobs.may_end.set()


def quick(upkeep): ...


def full(upkeep):
    raise OSError("disk\nis full")


def test_the_words_are_read():
    pipeline = validate(load(GOOD.replace("mode: append }\n", WORDS), "f.yaml", {}))

    lake = pipeline.sinks["lake"]
    vacuum = Upkeep(chore=Chore.VACUUM, every=1, keep_ms=240 * 3_600_000)
    assert lake.upkeep == (OPTIMIZE, vacuum)
    assert lake.cluster_by == ("id",)
    refuse_no_layout(lake, ["ID", "at"])
    with pytest.raises(ConfigError, match="no column `id` in the sink's table; it has: at"):
        refuse_no_layout(lake, ["at"])


def test_a_chore_is_due_by_the_tables_own_commits():
    assert [n for n in range(1, 350) if OPTIMIZE.is_due(n)] == [100, 200, 300]


def test_only_what_is_due_is_done(jobs):
    done = []
    keeper = jobs.keeper(done.append, OPTIMIZE, SHORT)

    assert [*keeper.after(99), *keeper.after(100)] == []

    assert done == [SHORT, OPTIMIZE, SHORT]


def test_a_chore_that_fails_is_one_line(jobs):
    assert jobs.keeper(full).keep(OPTIMIZE) == "optimize failed: disk"
    assert jobs.begun
    assert jobs.keeper(quick).keep(OPTIMIZE) == ""


def test_a_chore_that_cannot_even_begin_or_be_ended_fails_no_batch(jobs):
    def away():
        raise RuntimeError("Spark is away")

    assert Keeper((), quick, away, lambda: False).keep(OPTIMIZE) == "optimize failed: Spark is away"
    stuck = Keeper((), jobs.until_it_may, lambda: Group(begin=jobs.begin, end=away), lambda: False)
    assert stuck.keep(SHORT) == "vacuum failed: Spark is away"


def test_a_chore_that_takes_too_long_is_told_to_end_and_waited_for(jobs):
    said = jobs.keeper(jobs.until_told).keep(SHORT)

    assert said == "vacuum was ended: it took longer than 0.001 s (`within`)"
    assert jobs.ended


def test_a_chore_that_begins_another_job_is_told_again(jobs):
    def two_jobs(upkeep):
        jobs.until_told(upkeep)
        jobs.ended = False
        jobs.told_to_end.clear()
        jobs.until_told(upkeep)

    jobs.keeper(two_jobs).keep(SHORT)

    assert jobs.ended


def test_a_chore_is_ended_when_the_run_is(jobs):
    jobs.stopping = True

    assert jobs.keeper(jobs.until_told).keep(LONG) == "optimize was ended: the run ends"
    assert jobs.ended


def test_beside_a_chore_that_does_not_end_no_other_begins(jobs, monkeypatch):
    monkeypatch.setattr("pipelines.sinks.delta_maintenance.END_S", 0.01)
    keeper = jobs.keeper(jobs.until_it_may)
    keeper.keep(SHORT)

    said = keeper.keep(OPTIMIZE)
    assert said == "optimize is put off: vacuum was cancelled and has not ended yet"

    jobs.may_end.set()
    deadline_s = time.monotonic() + DEADLINE_S
    while keeper.keep(OPTIMIZE):
        assert time.monotonic() < deadline_s
