"""kill -9 of the driver: at every failpoint and at random moments, then a run to the end.

Each run that is killed is a real `josefine pipeline run` process of its own and takes its JVM
along; the last one of a test, which nothing disturbs, is made by the tests' own Spark. Starting a
driver is most of such a life, so most deaths are died in place (`Lab.die`), where that leaves the
same on disk: at a failpoint the query's thread in the JVM waits for our callback, so whether the
process ends there or the callback raises, this sink does nothing more and Spark commits no batch of
it. What differs is the other sink, which a kill cuts off and a death in place lets end its batch:
the kills at random moments are for that, and `-m slow` kills at every failpoint. Of each mode by
itself, at each failpoint: `test_kill_cells.py`.

One table lives through all kills of a test, so that a later kill meets the leftovers of earlier
ones. Afterwards: no row twice, none missing, the chains at the topic's ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from random import Random

import pytest

from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

KILLED = 137
FAILPOINTS = (
    "after_offsets",
    "before_commit",
    "mid_write",
    "mid_commit:1",
    "mid_commit:2@2",
    "after_commit_before_log",
)
SLOW = pytest.mark.slow
KILLED_EVERYWHERE = pytest.param((), id="killed", marks=SLOW)


def dies_at(lab, fail: str, rows: int, in_place: tuple[str, ...]) -> None:
    if fail in in_place:
        lab.die(fail, rows)
    else:
        killed_at(lab, fail, rows)


def killed_at(lab, fail: str, rows: int, *arguments: str) -> None:
    code, stderr = lab.finish(lab.command(*arguments, rows=rows, fail=fail))
    assert code == KILLED, f"{fail}: exit {code}\n{stderr[-2000:]}"


@SLOW
def test_a_driver_killed_at_every_failpoint_loses_and_repeats_nothing(lab):
    """Checklist rows 88 and 89 (its commits are whole or not there). With the checkpoint kept; each
    life recovers from the kill before it."""
    lab.produce(60)
    lab.produce_raw(0, b"not json")
    lab.bad.append((0, 30))

    for fail in FAILPOINTS:
        killed_at(lab, fail, 20)
        lab.produce(40)
    lab.run(rows=500)

    lab.check()


@pytest.mark.long_proof(share=3, among="runs that die")
@pytest.mark.parametrize("in_place", [pytest.param(FAILPOINTS, id="died"), KILLED_EVERYWHERE])
def test_a_driver_killed_and_its_checkpoint_lost_loses_and_repeats_nothing(lab, in_place):
    """Checklist row 88. The checkpoint is set aside, or deleted after each kill, while batch sizes
    change and dead letters lie in every batch."""
    lab.produce(60)
    lab.run(rows=60)
    lab.produce(60)

    killed_at(lab, "after_set_aside", 20, "--trust", "table")
    for fail, rows in (("mid_write", 20), ("mid_commit:1", 33), ("mid_commit:2@2", 11)):
        dies_at(lab, fail, rows, in_place)
        lab.lose_checkpoint()
        lab.bad.append((1, lab.topic_ends()[lab.topic, 1]))
        lab.produce_raw(1, b'{"id": "text"}')
        lab.produce(40)
    lab.run(rows=500)

    lab.check()


RANDOM_LIVES = [
    pytest.param(2, 1),
    *(pytest.param(seed, 3, marks=SLOW) for seed in range(1, 12)),
]
"""(seed, kills). Seed 2 once left a table's folder without its first commit."""


@pytest.mark.parametrize(("seed", "kills"), RANDOM_LIVES)
def test_a_driver_killed_at_random_moments_loses_and_repeats_nothing(lab, seed, kills):
    """Checklist row 88. The moment: some time after the run showed a first sign of writing."""
    rng = Random(seed)
    lab.produce(100)

    for _ in range(kills):
        process = lab.command(rows=rng.randint(10, 30))
        marks = marks_of(lab)
        wait_until(
            lambda m=marks, p=process: marks_of(lab) > m or p.poll() is not None, 300, "work"
        )
        # Not a wait for something to be done but the random moment itself.
        let_run(process, rng.random() * 4)
        lab.kill(process)
        lab.produce(rng.randint(10, 60))
        if rng.random() < 0.5:
            lab.lose_checkpoint()
    lab.run(rows=500)

    lab.check()


def marks_of(lab) -> int:
    """Files written so far: the run is at work when this grows. Directories may vanish meanwhile
    (Spark's and Hypothesis' temporary ones), which `os.walk` passes over."""
    return sum(len(files) for _, _, files in os.walk(lab.directory))


def let_run(process, seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
