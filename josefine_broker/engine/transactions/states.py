"""The states of a transaction, with their one table.

Rules: nothing moves but by the table; a pair that is not listed is a broken invariant. States and
names are Kafka's: clients are told the names, and the log keeps the numbers. What is prepared is
decided for good: from there the only way is to complete it. Only producers of version 2 abort what
was not begun (`ending.py`).
"""

from enum import Enum

from josefine_broker.base.errors import Fatal


class TransactionState(Enum):
    """What a transactional id's transaction does."""

    EMPTY = "Empty"  # a producer has the id, and never began one
    ONGOING = "Ongoing"  # partitions or groups are in it
    PREPARE_COMMIT = "PrepareCommit"  # committed, and not every marker is written
    PREPARE_ABORT = "PrepareAbort"  # aborted, and not every marker is written
    COMPLETE_COMMIT = "CompleteCommit"  # committed, and everybody knows
    COMPLETE_ABORT = "CompleteAbort"  # aborted, and everybody knows
    DEAD = "Dead"  # nobody used the id for long: it is forgotten


class TransactionEvent(Enum):
    """What moves a transaction."""

    INIT = "init"  # a producer took the id, or took it over
    ADD = "add"  # partitions or groups joined it
    KEEP = "keep"  # its producer's next process took it over as it is, to end it
    COMMIT = "commit"  # its producer ends it well
    ABORT = "abort"  # its producer gives it up, a successor fences it, or its time is over
    MARKED = "marked"  # every marker is written
    EXPIRE = "expire"  # nobody used the id for long


TRANSITIONS: dict[tuple[TransactionState, TransactionEvent], TransactionState] = {
    (TransactionState.EMPTY, TransactionEvent.INIT): TransactionState.EMPTY,
    (TransactionState.EMPTY, TransactionEvent.ADD): TransactionState.ONGOING,
    (TransactionState.EMPTY, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.EMPTY, TransactionEvent.EXPIRE): TransactionState.DEAD,
    (TransactionState.ONGOING, TransactionEvent.ADD): TransactionState.ONGOING,
    (TransactionState.ONGOING, TransactionEvent.KEEP): TransactionState.ONGOING,
    (TransactionState.ONGOING, TransactionEvent.COMMIT): TransactionState.PREPARE_COMMIT,
    (TransactionState.ONGOING, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.PREPARE_COMMIT, TransactionEvent.MARKED): TransactionState.COMPLETE_COMMIT,
    (TransactionState.PREPARE_ABORT, TransactionEvent.MARKED): TransactionState.COMPLETE_ABORT,
    (TransactionState.COMPLETE_COMMIT, TransactionEvent.INIT): TransactionState.EMPTY,
    (TransactionState.COMPLETE_COMMIT, TransactionEvent.ADD): TransactionState.ONGOING,
    (TransactionState.COMPLETE_COMMIT, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.COMPLETE_COMMIT, TransactionEvent.EXPIRE): TransactionState.DEAD,
    (TransactionState.COMPLETE_ABORT, TransactionEvent.INIT): TransactionState.EMPTY,
    (TransactionState.COMPLETE_ABORT, TransactionEvent.ADD): TransactionState.ONGOING,
    (TransactionState.COMPLETE_ABORT, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.COMPLETE_ABORT, TransactionEvent.EXPIRE): TransactionState.DEAD,
}

PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Decided, and to be completed by whoever coordinates it."""
IDLE = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""No transaction is there."""


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Raises Fatal for a pair that the table does not list."""
    after = TRANSITIONS.get((state, event))
    if after is None:
        raise Fatal(f"a transaction that is {state.value} cannot take {event.value}")
    return after
