"""Every mutant of both simulators still names a line that is there: told at once, in no life."""

import pytest

from tests.simulation.cluster.test_mutants import MUTANTS as CLUSTER_MUTANTS
from tests.simulation.mutating import Breaks, mutated
from tests.simulation.raft.mutants import MUTANTS as RAFT_MUTANTS


@pytest.mark.parametrize("mutants", [RAFT_MUTANTS, CLUSTER_MUTANTS], ids=["raft", "cluster"])
def test_every_mutant_can_be_put_in_place(mutants: list[Breaks]) -> None:
    """Who changes such a line changes its mutant with it."""
    for mutant in mutants:
        with mutated(mutant):
            pass
