"""Whatever topic and store lose: a read is exactly right, or an error says what is lost."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from josefine_journal.delta_store import DeltaStore
from josefine_journal.opening import check_placement
from josefine_journal.reduction import counts
from josefine_journal.replicator import Replicator
from josefine_journal.viewing import Viewer
from tests.simulation.mutating import mutated
from tests.support.journal_losses import LOSSES, run_life
from tests.support.journal_mutants import Mutant

STEPS = 25
SEEDS_DAILY = 2
SEEDS = 150
SEEDS_MAX = 60
REGRESSIONS = [204]
"""A store from before a move: the purge of that move was copied after the journal."""

MUTANTS = [
    Mutant(
        breaks="the end of a partition is the one that RESTORE takes back",
        function=DeltaStore._end,
        old="return found[0]",
        new="return StoredEnd(partition=partition, end=self._transaction(table, "
        "self._app_id(partition)) or 0, lost_to=0, path=found[0].path, size=found[0].size)",
    ),
    Mutant(
        breaks="a topic without a store that lost its beginning is refused",
        function=Viewer._check_beginning,
        old="before.end_offset > 0 and",
        new="False and",
    ),
    Mutant(
        breaks="an append that expects a later number than the store has counts after a loss",
        function=counts,
        old="(is_least and expected > known)",
        new="False",
    ),
    Mutant(
        breaks="a record of another partition count is seen",
        function=check_placement,
        old="recorded is not None and recorded != count",
        new="False",
    ),
    Mutant(
        breaks="what is lost stops a replicator",
        function=Replicator._pass,
        old="not self._passes_lost",
        new="False",
    ),
]


def live(seed: int, *, passes_lost: bool) -> dict[str, int]:
    with TemporaryDirectory() as folder:
        return run_life(seed, Path(folder), STEPS, passes_lost=passes_lost)


@pytest.mark.parametrize("passes_lost", [False, True], ids=["stop", "skip"])
@pytest.mark.parametrize("seed", range(SEEDS_DAILY))
def test_a_read_is_exactly_right_or_names_what_is_lost(seed: int, passes_lost: bool) -> None:
    assert live(seed, passes_lost=passes_lost)["exact"] > 0


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_found_once_stays_found(seed: int) -> None:
    live(seed, passes_lost=False)


@pytest.mark.slow
@pytest.mark.parametrize("passes_lost", [False, True], ids=["stop", "skip"])
def test_the_same_holds_in_many_lives(passes_lost: bool) -> None:
    seen: set[str] = set()
    for seed in range(SEEDS):
        try:
            seen |= set(live(seed, passes_lost=passes_lost))
        except BaseException as error:
            raise AssertionError(f"seed {seed}, passes_lost={passes_lost}") from error
    assert {"exact", "RecordsLost"} <= seen
    if not passes_lost:
        assert {*LOSSES, "TopicWidened", "moved again", "StoreError"} <= seen


def test_every_mutant_of_losses_can_be_put_in_place() -> None:
    for mutant in MUTANTS:
        with mutated(mutant):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_of_losses_is_caught(mutant: Mutant) -> None:
    with mutated(mutant):
        for seed in range(SEEDS_MAX):
            for passes_lost in (False, True):
                try:
                    live(seed, passes_lost=passes_lost)
                except Exception:
                    return
    pytest.fail(f"nobody noticed that this is broken: {mutant.breaks}")
