"""Random lives of whole clusters: every seed has its own mixture of faults.

More of them: python -m tests.simulation.cluster.run 0 --seeds N. One again: see run.py.
"""

import os
import subprocess
import sys

import pytest

from tests.simulation.cluster.faults import CALM, COUNTED
from tests.simulation.cluster.run import Life, Total, live_all, simulate
from tests.simulation.cluster.world import World

pytestmark = pytest.mark.timeout(900)
"""Whichever test comes first lives all the lives."""

SEEDS = range(200)

REGRESSIONS: tuple[int, ...] = (40, 97, 159, 5062, 30178, 30609)
"""Seeds that once found a fault, in the broker or in the simulator, when they still meant that."""

HAPPENS_MIN = 10
"""How often each fault must have hit in all these lives together."""

TOTALS: list[Total] = []


@pytest.fixture(scope="module")
def lives() -> list[Life]:
    total, lives = Total(), list(live_all(SEEDS))
    for life in lives:
        total.add(life)
    TOTALS.append(total)
    return lives


def test_no_mixture_of_faults_breaks_a_promise(
    lives: list[Life], capsys: pytest.CaptureFixture[str]
) -> None:
    """Checklist rows 10, 14, 15, 35 and 36."""
    (total,) = TOTALS
    with capsys.disabled():
        print(f"\n{total.line()}")

    assert total.broken == []
    assert len(lives) == len(SEEDS)


@pytest.mark.parametrize("what", COUNTED)
def test_every_named_fault_really_happens(lives: list[Life], what: str) -> None:
    assert sum(life.met[what] for life in lives) >= HAPPENS_MIN


def test_every_life_is_worth_its_time(lives: list[Life]) -> None:
    """None is so broken that nothing happens in it, and hardly anything is excused."""
    assert min(life.events for life in lives) > 1_000
    assert min(life.met["record acknowledged"] for life in lives) > 3
    assert sum(life.met["record acknowledged"] for life in lives) > 100 * len(lives)
    assert sum(life.met["batch read"] for life in lives) > 100 * len(lives)
    assert sum(life.met["leader elected"] for life in lives) > 3 * len(lives)
    excused = sum(life.met["partition excused"] for life in lives)
    assert excused < 0.1 * sum(life.met["partition"] for life in lives)


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    simulate(seed)


def test_a_seed_replays_byte_for_byte_in_another_process() -> None:
    """Nothing may hang on the order of a set of strings, or on an address."""
    line = [sys.executable, "-m", "tests.simulation.cluster.run", "11", "--trace"]
    traces = [
        subprocess.run(
            line, env=os.environ | {"PYTHONHASHSEED": str(salt)}, capture_output=True, check=True
        ).stdout
        for salt in (1, 2)
    ]

    assert traces[0] == traces[1]
    assert traces[0].count(b"\n") > 300


def test_without_faults_nothing_is_refused_or_late() -> None:
    world = World(1, brokers=3, faults=CALM)
    world.scheduler.run(8_000)
    world.settle()

    assert world.met["produce without an answer"] == 0
    assert not [what for what in world.met if what.startswith("producer told")]
    assert world.met["record acknowledged"] > 200
    assert world.met["leader elected"] == 0
