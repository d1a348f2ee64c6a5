"""The checkers can fail: each mutant breaks one rule of the library, and is caught.

Most are caught by random lives within a few seeds. Where chance needs too long, a text scenario
plays the very case: it names the scenario, whose checkers or whose trace must then complain.
"""

import traceback
from pathlib import Path

import pytest

from raft import CorruptBlock, InvariantBroken
from tests.simulation.mutating import mutated
from tests.simulation.raft import liveness
from tests.simulation.raft.faults import NEWEST
from tests.simulation.raft.invariants import ALL_INVARIANTS
from tests.simulation.raft.mutants import MUTANTS, Mutant
from tests.simulation.raft.run import simulate
from tests.simulation.raft.scenarios import SCENARIOS, play

SEEDS_MAX = 150
LIVENESS = Path(str(liveness.__file__))
INVARIANTS = LIVENESS.parent / "invariants"
BROKEN = (AssertionError, InvariantBroken, CorruptBlock, ValueError, KeyError)


def who_complains(mutant: Mutant) -> str | None:
    """The checker's name; "library" or "trace" for the other ways to notice; None: nobody."""
    try:
        if mutant.scenario:
            (path,) = (path for path in SCENARIOS if path.stem == mutant.scenario)
            text = path.read_text()
            return "trace" if play(text) != text else None
        for seed in range(mutant.seed, mutant.seed + SEEDS_MAX):
            without = {**NEWEST, **mutant.faults}
            simulate(seed, for_ms=6_000, without=without, liveness=mutant.liveness)
    except BROKEN as error:
        return checker_in(error) or "library"
    return None


def checker_in(error: BaseException) -> str | None:
    frames = (Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__))
    checkers = [path.stem for path in frames if path.parent == INVARIANTS or path == LIVENESS]
    return checkers[-1] if checkers and isinstance(error, AssertionError) else None


@pytest.mark.timeout(300)
@pytest.mark.long_proof(share=8)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    with mutated(mutant):
        complains = who_complains(mutant)

    assert complains, f"nobody noticed that this is broken: {mutant.breaks}"
    assert not mutant.checker or complains == mutant.checker


def test_every_invariant_has_a_mutant_that_it_catches() -> None:
    names = {invariant.__module__.rpartition(".")[2] for invariant in ALL_INVARIANTS}

    assert {mutant.checker for mutant in MUTANTS} - {""} == names | {LIVENESS.stem}
