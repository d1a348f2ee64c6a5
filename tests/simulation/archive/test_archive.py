"""Histories of archived topics break no rule, and notice when a rule of the product is broken.

More of them: `python -m tests.simulation.archive.run SEED --seeds N`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.archive.mutants import MUTANTS
from tests.simulation.archive.run import simulate
from tests.simulation.mutating import Mutant, mutated

pytestmark = pytest.mark.timeout(600)

SEEDS_MAX = 120


@pytest.mark.parametrize(
    ("first", "seeds"),
    [pytest.param(0, 6, id="daily"), pytest.param(6, 200, id="all", marks=pytest.mark.slow)],
)
def test_archived_records_are_kept_and_read_once(first: int, seeds: int) -> None:
    met: Counter[str] = Counter()
    for seed in range(first, first + seeds):
        met += simulate(seed).met

    assert met["record deleted locally"] > 20 * seeds
    assert met["record read from the archive"] > 10 * seeds


def test_a_history_is_the_same_again() -> None:
    one, other = simulate(3), simulate(3)

    assert (one.events, one.trace, one.met) == (other.events, other.trace, other.met)


def test_every_mutant_finds_the_line_that_it_breaks() -> None:
    for mutant in MUTANTS:
        with mutated(mutant):
            pass


def caught_by(mutant: Mutant) -> int | None:
    """The first seed whose history notices; None: none does."""
    with mutated(mutant):
        for seed in range(mutant.seed, mutant.seed + SEEDS_MAX):
            try:
                simulate(seed)
            except Exception:
                return seed
    return None


@pytest.mark.long_proof(share=12, among="broken rules of archives")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert caught_by(mutant) is not None, f"nobody noticed that this is broken: {mutant.breaks}"
