"""Random worlds: every seed is a life of a cluster with its own mixture of faults.

More of them: ./build.sh test sim --seeds N --seed S. One again: see run.py.
"""

import os
import subprocess
import sys

import pytest

from raft import Result
from tests.simulation.raft.faults import CALM, COUNTED
from tests.simulation.raft.run import Life, Total, live_all, simulate
from tests.simulation.raft.world import World

pytestmark = pytest.mark.timeout(600)
"""Whichever test comes first lives all the lives."""

SEEDS = range(500)
SMALL = {1: range(10), 2: range(30), 3: range(30), 4: range(20)}
"""Nodes → seeds: in small clusters other things are rare."""

REGRESSIONS = tuple(
    (seed, 5) for seed in (100947, 102679, 103240, 103816, 104300, 104830, 105905, 406153)
)
"""(seed, nodes) that once found a fault in the simulator as it is now."""

HAPPENS_MIN = 30
"""How often each fault must have hit in all these lives together."""

TOTALS: list[Total] = []


@pytest.fixture(scope="module")
def lives() -> list[Life]:
    total, lives = Total(), list(live_all(SEEDS))
    for life in lives:
        total.add(life)
    TOTALS.append(total)
    return lives


def test_no_mixture_of_faults_breaks_a_rule(
    lives: list[Life], capsys: pytest.CaptureFixture[str]
) -> None:
    """Checklist rows 2-4, 6-11, 15 and 16, as far as the library goes: after every step of every
    life all of invariants/ holds."""
    (total,) = TOTALS
    with capsys.disabled():
        print(f"\n{total.line()}")

    assert total.broken == []
    assert len(lives) == len(SEEDS)


@pytest.mark.parametrize("what", COUNTED)
def test_every_named_fault_really_happens(lives: list[Life], what: str) -> None:
    assert sum(life.met[what] for life in lives) >= HAPPENS_MIN


def test_every_life_is_worth_its_time(lives: list[Life]) -> None:
    """None is so broken that nothing happens in it."""
    assert min(life.events for life in lives) > 500
    assert min(life.met["block committed"] for life in lives) > 10
    assert sum(life.met["block committed"] for life in lives) > 100 * len(lives)
    assert sum(life.met["election won"] for life in lives) > 2 * len(lives)


@pytest.mark.parametrize("nodes", SMALL)
def test_small_clusters_keep_the_rules_too(nodes: int) -> None:
    broken = [life.broken for life in live_all(SMALL[nodes], nodes) if life.broken]

    assert broken == []


@pytest.mark.parametrize(("seed", "nodes"), REGRESSIONS)
def test_what_was_found_once_stays_mended(seed: int, nodes: int) -> None:
    simulate(seed, nodes)


def test_a_seed_replays_event_for_event() -> None:
    first, second = simulate(11), simulate(11)

    assert (first.trace, first.events) == (second.trace, second.events)


def test_a_seed_replays_byte_for_byte_in_another_process() -> None:
    """Nothing may hang on the order of a set of strings, or on an address."""
    line = [sys.executable, "-m", "tests.simulation.raft.run", "11", "--trace"]
    traces = [
        subprocess.run(
            line, env=os.environ | {"PYTHONHASHSEED": str(salt)}, capture_output=True, check=True
        ).stdout
        for salt in (1, 2)
    ]

    assert traces[0] == traces[1]
    assert traces[0].count(b"\n") > 1000


def test_without_faults_every_proposal_is_committed() -> None:
    world = World(1, nodes=5, faults=CALM)
    world.run(2_000)  # some did not wait for the first leader
    before = world.results()
    world.run(5_000)
    world.settle()

    results = world.results()
    assert results[Result.COMMITTED] > before[Result.COMMITTED] + 100
    assert {**results, Result.COMMITTED: 0} == {**before, Result.COMMITTED: 0}
