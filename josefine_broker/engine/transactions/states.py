"""The states of a transaction, and their transition table.

Rules: every transition is in the table; a pair that is not listed is a broken invariant. States and
names are Kafka's: clients see the names, and the log stores the numbers. A prepared transaction is
decided for good: it can only be completed. Only producers of version 2 abort a transaction that has
not begun (`ending.py`).
"""

from enum import Enum

from josefine_broker.base.errors import Fatal


class TransactionState(Enum):
    """The state of a transactional id's transaction."""

    EMPTY = "Empty"  # a producer has the id and has not begun a transaction
    ONGOING = "Ongoing"  # partitions or groups are in it
    PREPARE_COMMIT = "PrepareCommit"  # committed, and markers are still to be written
    PREPARE_ABORT = "PrepareAbort"  # aborted, and markers are still to be written
    COMPLETE_COMMIT = "CompleteCommit"  # committed, with all markers written
    COMPLETE_ABORT = "CompleteAbort"  # aborted, with all markers written
    DEAD = "Dead"  # the id was unused for long and is forgotten


class TransactionEvent(Enum):
    """The events that change the state."""

    INIT = "init"  # a producer got the id, or took it over
    ADD = "add"  # partitions or groups were added
    KEEP = "keep"  # the producer's next process took over the open transaction, to end it
    COMMIT = "commit"  # the producer commits
    ABORT = "abort"  # the producer aborts, a successor fences it, or it timed out
    MARKED = "marked"  # every marker is written
    EXPIRE = "expire"  # the id was unused for long


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
"""Decided, and still to be completed by the coordinator."""
IDLE = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""Without a transaction."""


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """The state after an event. Raises Fatal for a pair that the table does not list."""
    after = TRANSITIONS.get((state, event))
    if after is None:
        raise Fatal(f"a transaction that is {state.value} cannot take {event.value}")
    return after
