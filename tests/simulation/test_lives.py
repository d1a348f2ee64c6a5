"""What is told of lives: sums over many, and of a broken one the line that replays it."""

from collections import Counter
from dataclasses import dataclass
from random import Random
from types import ModuleType

import pytest

from raft import InvariantBroken
from tests.simulation import lives
from tests.simulation.cluster import faults as cluster
from tests.simulation.lives import BROKEN_MAX, Life, Live, Switches, switches_on
from tests.simulation.raft import faults as raft

WORDS = {"crash": "crashes"}


@dataclass
class World:
    events: int = 7
    now_ms: int = 50


def live(seed: int, *, show: bool = False) -> Life:
    """Odd seeds break a rule."""
    with lives.naming_replay(f"raft.run {seed}", World()):
        if seed % 2:
            raise InvariantBroken("two leaders")
    return Life(seed=seed, events=10, trace=0, met=Counter(crash=seed))


def exit_code(*arguments: str, live: Live = live, switches: Switches | None = None) -> int:
    asked = lives.arguments_for("Lives of no world.").parse_args(arguments)
    return lives.run(asked, live, WORDS, switches)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_broken_life_names_its_seed_and_its_replay_and_the_others_go_on(
    jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = exit_code("0", "--seeds", "5", "--jobs", jobs)

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert (
        "seed 3: InvariantBroken: two leaders; replay: .venv/bin/python -m "
        "tests.simulation.raft.run 3 (stopped at event 7, 50 ms)"
    ) in lines
    (sums,) = [line for line in lines if line.startswith("5 seeds, 30 events, 6 crashes, ")]
    assert sums.endswith(" s, 2 violations")
    assert lines[-1].split() == ["6", "crash"]


def test_enough_violations_end_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    code = exit_code("0", "--seeds", "1000", "--jobs", "1")

    assert code == 1
    assert f"{2 * BROKEN_MAX} seeds" in capsys.readouterr().out


def test_one_life_tells_what_it_met(capsys: pytest.CaptureFixture[str]) -> None:
    code = exit_code("4")

    assert code == 0
    assert capsys.readouterr().out == "seed 4: 10 events, trace 00000000\n       4 crash\n"


def test_sums_are_told_now_and_then_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code("0", "--seeds", "5", "--every", "2", "--jobs", "1")

    told = [line for line in capsys.readouterr().out.splitlines() if " seeds, " in line]
    assert [line.split()[0] for line in told] == ["2", "4", "5"]


def test_one_life_that_breaks_a_rule_raises_with_its_replay() -> None:
    with pytest.raises(InvariantBroken) as broken:
        exit_code("3")

    assert "tests.simulation.raft.run 3" in broken.value.__notes__[0]


@dataclass
class Faults:
    crash_per_second: float = 0.0
    drop: float = 0.0


SWITCHES = {"crash_per_second": ("crash", "crash of all"), "drop": ("message dropped",)}


def live_with_switches(seed: int, *, show: bool = False) -> Life:
    """Odd seeds may crash, and do so in two ways."""
    met = switches_on(Faults(crash_per_second=0.5 * (seed % 2)), SWITCHES)
    met.update(Counter({"crash": seed, "crash of all": 1, "election": 2}))
    return Life(seed=seed, events=10, trace=0, met=met)


def test_a_report_says_in_how_many_lives_each_fault_was_on_and_how_often_it_took_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exit_code("0", "--seeds", "4", "--jobs", "1", live=live_with_switches, switches=SWITCHES)

    told = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert told == [
        ["lives", "times", "fault"],
        ["2", "10", "crash_per_second"],
        ["0", "0", "drop"],
        ["6", "crash"],
        ["4", "crash", "of", "all"],
        ["8", "election"],
    ]


@pytest.mark.parametrize("faults", [cluster, raft], ids=["cluster", "raft"])
def test_every_fault_that_a_seed_may_switch_on_is_in_the_report(faults: ModuleType) -> None:
    assert set(faults.SWITCHES) == set(faults.STRENGTH_MAX)
    assert faults.draw_faults(Random(1)) != faults.CALM
