"""The proof of `tests/proofs/power_and_pauses.py`, one history of each fault; and it can fail."""

import pytest

from josefine_broker.base.errors import CorruptData, Fatal, KafkaError
from josefine_broker.engine.metadata import leader_election
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.host.log import recovery
from josefine_broker.host.log.life_marks import LifeMarks
from josefine_broker.host.log.log import PartitionLog
from tests.proofs.power_and_pauses import FAULTS, prove_fault
from tests.simulation.cluster.mutants import get
from tests.simulation.mutating import Mutant, mutated

MUTANTS = {
    "bit flips": Mutant(
        breaks="damage is repaired",
        function=Repairs.step,
        old="if not self._damaged.logs and not self._open:",
        new="if True:",
        seed=0,
    ),
    "truncation": Mutant(
        breaks="what looks like an unfinished write may be a file that was shortened",
        function=recovery.cut,
        old="elif tally.keeps_tail:",
        new="elif False:",
        seed=28,
    ),
    "power loss of all": Mutant(
        breaks="where a topic asks for it, records count once they are synced",
        function=get(PartitionLog.durable_end_offset),
        old="self._sync.durable_end if self.config.flush_messages == 1 else self.log_end_offset",
        new="self.log_end_offset",
        seed=0,
    ),
    "crash of one, another paused": Mutant(
        breaks="who may have lost records does not lead while another has them, although it pauses",
        function=leader_election.trusted,
        old="if not entry.doubts:",
        new="if True:",
        seed=0,
    ),
    "crash of one between batches": Mutant(
        breaks="the mark of a killed process says nothing once its machine has started again",
        function=LifeMarks._epoch_of_killed,
        old="if same_boot else",
        new="if True else",
        seed=0,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_acknowledged_is_lost(name: str) -> None:
    met = prove_fault(name, 1)

    assert met["faults"] >= 3
    assert met["records"] > 20


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("name", MUTANTS)
def test_broken_rule_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    with mutated(mutant):
        for seed in range(mutant.seed, mutant.seed + 5):
            try:
                prove_fault(name, seed)
            except (AssertionError, CorruptData, KafkaError, Fatal):
                return
    pytest.fail(f"nobody noticed: {mutant.breaks}")
