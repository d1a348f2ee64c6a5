"""The checkers can fail: each mutant breaks one rule of the cluster, and random lives notice."""

from dataclasses import replace
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData, Fatal, KafkaError
from josefine_broker.engine.cluster.enrolment import DismissedError
from raft import InvariantBroken
from tests.simulation.cluster.consumer_mutants import CONSUMER_MUTANTS
from tests.simulation.cluster.faults import NEW_SINCE, Faults, draw_faults
from tests.simulation.cluster.group_mutants import GROUP_MUTANTS
from tests.simulation.cluster.mirror_mutants import MIRROR_MUTANTS
from tests.simulation.cluster.mutants import MUTANTS, Mutant
from tests.simulation.cluster.participant_mutants import PARTICIPANT_MUTANTS
from tests.simulation.cluster.plain_mutants import PLAIN_MUTANTS
from tests.simulation.cluster.run import simulate
from tests.simulation.cluster.share_mutants import SHARE_MUTANTS
from tests.simulation.cluster.transfer_mutants import TRANSFER_MUTANTS
from tests.simulation.mutating import mutated

SEEDS_MAX = 150
FOR_MS = 10_000
BROKEN = (
    AssertionError,
    CorruptData,
    DismissedError,
    Fatal,
    InvariantBroken,
    KafkaError,
    KeyError,
    ValueError,
)


def faults_for(mutant: Mutant, seed: int) -> Faults:
    """What chance gives, with what this mutant needs."""
    return replace(draw_faults(Random(seed)), **(NEW_SINCE | mutant.faults))


def caught_by(mutant: Mutant) -> int | None:
    """The first seed whose life notices; None: none does."""
    with mutated(mutant):
        for seed in range(mutant.seed, mutant.seed + SEEDS_MAX):
            faults = faults_for(mutant, seed)
            try:
                simulate(seed, FOR_MS, faults=faults, brokers=mutant.brokers)
            except BROKEN:
                return seed
    return None


ALL = (
    *MUTANTS, *GROUP_MUTANTS, *TRANSFER_MUTANTS, *CONSUMER_MUTANTS, *PARTICIPANT_MUTANTS,
    *SHARE_MUTANTS, *PLAIN_MUTANTS, *MIRROR_MUTANTS,
)  # fmt: skip


def test_every_mutant_finds_the_line_that_it_breaks() -> None:
    """Those of the long run, too, which would rot unseen."""
    for mutant in ALL:
        with mutated(mutant):
            pass


@pytest.mark.timeout(300)
@pytest.mark.long_proof(share=12)
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    assert caught_by(mutant) is not None, f"nobody noticed that this is broken: {mutant.breaks}"
