"""Wrong lines, one per rule of two-phase commits, and of who waits to join a transaction: see
mutants.py."""

from josefine_broker.engine.transactions import transaction
from josefine_broker.engine.transactions.coordinator import TransactionCoordinator
from tests.simulation.cluster.mutants import Mutant
from tests.simulation.cluster.transfer_mutants import FAILOVERS, TRANSFERS

__all__ = ["PARTICIPANT_MUTANTS"]

TWO_PHASES = {**TRANSFERS, "two_phase": 1.0}
PARTICIPANT_MUTANTS = [
    Mutant(
        breaks="what was prepared is kept for who asks for it",
        function=TransactionCoordinator._take,
        old="elif found.record.state is TransactionState.ONGOING and request.keeps:",
        new="elif False:",
        faults=TWO_PHASES,
    ),
    Mutant(
        breaks="a participant's transaction waits for as long as the operator allows",
        function=transaction.timeout_of,
        old="if request.two_phase:",
        new="if False:",
        faults=TWO_PHASES,
    ),
    Mutant(
        breaks="a new coordinator gives a transaction the rest of its time",
        function=TransactionCoordinator.load,
        old="+ record.left_ms(now.wall_ms)",
        new="",
        seed=1,
        faults={**FAILOVERS, "two_phase": 1.0},
    ),
    Mutant(
        breaks="what is kept has the partitions that it had",
        function=TransactionCoordinator._keep,
        old="next_epoch=producer.epoch,",
        new="next_epoch=producer.epoch, partitions=frozenset(),",
        faults=TWO_PHASES,
    ),
    Mutant(
        breaks="who joins a transaction leaves in it what is there",
        function=TransactionCoordinator._join,
        old="joined = record.partitions if is_open else frozenset()",
        new="joined = frozenset()",
        faults=TRANSFERS,
    ),
]
