"""Wrong lines, one per rule of transactions that matters: see mutants.py."""

from josefine_broker.engine.coordinators import (
    loading_transactions,
    transaction_verification,
    transactions_host,
)
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.transactions import Transactions
from josefine_broker.engine.transactions import ending, transaction
from josefine_broker.engine.transactions.coordinator import TransactionCoordinator
from tests.simulation.cluster.mutants import Mutant

__all__ = ["TRANSFER_MUTANTS"]

TRANSFERS = {"transactions": 1.0, "unclean_allowed": 0.0, "reckless": 0.0}
FAILOVERS = {
    **TRANSFERS,
    "kill_per_second": 0.8,
    "restart_per_second": 3.0,
    "pause_per_second": 0.4,
    "connection_slow": 0.2,
}
TRANSFER_MUTANTS = [
    Mutant(
        breaks="a transaction that outlasts its timeout is aborted",
        function=TransactionCoordinator.tick,
        old="if found.is_overdue(now):",
        new="if False:",
        faults=TRANSFERS,
    ),
    Mutant(
        breaks="a transaction that is taken from its producer ends under the next epoch",
        function=ending.taken_away,
        old="min(newest + step, EPOCH_MAX)",
        new="newest",
        faults=TRANSFERS,
    ),
    Mutant(
        breaks="a producer of an older epoch is fenced by its coordinator",
        function=transaction.check_holder,
        old="if record.is_kept or record.producer.epoch != producer.epoch:",
        new="if False:",
        faults=TRANSFERS,
        seed=3,
    ),
    Mutant(
        breaks="stable is what lies before every open transaction",
        function=Transactions.stable_end,
        old="if self._open:",
        new="if False:",
        faults=TRANSFERS,
    ),
    Mutant(
        breaks="readers are told of what was aborted",
        function=Transactions.end,
        old="if not is_commit:",
        new="if False:",
        faults=TRANSFERS,
    ),
    Mutant(
        breaks="a follower ends the transactions whose markers it copies",
        function=Partition.copied,
        old="read_marker(batch) if header.is_control else None",
        new="None",
        seed=1,
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="a decision counts when it is stored",
        function=transactions_host._store,
        old="if not appended.decide():",
        new="settle(None)\n    if False:",
        faults=FAILOVERS,
        seed=1,
    ),
    Mutant(
        breaks="a new coordinator knows the transactions that its partition names",
        function=loading_transactions._hand_over,
        old="transactions.coordinator.load(stored,",
        new="transactions.coordinator.load({},",
        faults=FAILOVERS,
        seed=1,
    ),
    Mutant(
        breaks="a marker that was not written is asked for again",
        function=TransactionCoordinator.marked,
        old="if is_written and ours:",
        new="if ours:",
        seed=2,
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="a transaction is over when every marker is written",
        function=TransactionCoordinator._complete,
        old="if found.unmarked or found.pending",
        new="if found.pending",
        faults=FAILOVERS,
    ),
    Mutant(
        breaks="a new coordinator ends what is overdue",
        function=TransactionCoordinator.load,
        old="if record.state not in IDLE:",
        new="if False:",
        faults=FAILOVERS,
        seed=13,
    ),
    Mutant(
        breaks="a leader asks whether a transaction has its partition",
        function=transaction_verification.must_verify,
        old="(adds or ctx.image.verifies_transactions)",
        new="adds",
        faults=TRANSFERS,
        seed=13,
    ),
    Mutant(
        breaks="an end raises the epoch",
        function=ending.ended,
        old="ProducerEpoch(producer.epoch + 1)",
        new="producer.epoch",
        faults=TRANSFERS,
    ),
    Mutant(
        breaks="an end that comes late does not end the next transaction",
        function=ending.judge_end,
        old="if producer == record.successor or (",
        new="if was_before(record, producer) or producer == record.successor or (",
        faults=TRANSFERS,
        seed=13,
    ),
]
