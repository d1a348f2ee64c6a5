"""The lives can fail: each mutant breaks one rule of the journal, and lives notice."""

import pytest

from tests.simulation.mutating import mutated
from tests.support.journal_mutants import MUTANTS, Mutant
from tests.unit.josefine_journal.test_lives import live

SEEDS_MAX = 400


def test_every_mutant_can_be_put_in_place() -> None:
    for mutant in MUTANTS:
        with mutated(mutant):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    with mutated(mutant):
        for seed in range(SEEDS_MAX):
            try:
                live(seed)
            except Exception:
                return
    pytest.fail(f"nobody noticed that this is broken: {mutant.breaks}")
