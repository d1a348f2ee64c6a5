"""The end of a transaction by a version 2 producer: each end raises the producer's epoch, so that
every transaction has its own epoch (KIP-890).

Rules: an end under the previous epoch is a retry: it gets the earlier answer, and nothing is ended
twice. A producer whose epochs are used up continues with a new producer id. A transaction without
writes can be aborted, because batches that the producer gave up may still arrive. This module
decides; the coordinator stores the result.
"""

from enum import Enum

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.transactions.states import (
    PREPARED,
    TransactionEvent,
    TransactionState,
)
from josefine_broker.engine.transactions.values import (
    EPOCH_LAST,
    EPOCH_MAX,
    FIRST_EPOCH,
    NO_PRODUCER_ID,
    VERSION_2,
    Producer,
    TransactionRecord,
)


class End(Enum):
    """What a producer requests, judged by its epoch."""

    COMMIT = "commit"  # the current transaction
    ABORT = "abort"  # the current transaction
    COMMIT_AGAIN = "commit again"  # a retry for the previous transaction: the answer was lost
    ABORT_AGAIN = "abort again"  # a retry for the previous transaction: the answer was lost


DONE = ErrorCode.none
"""The answer of a retry whose first request succeeded."""
_WAIT = ErrorCode.concurrent_transactions
_WRONG = ErrorCode.invalid_txn_state
_FENCED = ErrorCode.producer_fenced

ENDS: dict[tuple[TransactionState, End], TransactionEvent | ErrorCode] = {
    # Nothing was written. To abort is allowed, see above; a commit without writes is a mistake.
    (TransactionState.EMPTY, End.COMMIT): _WRONG,
    (TransactionState.EMPTY, End.ABORT): TransactionEvent.ABORT,
    (TransactionState.EMPTY, End.COMMIT_AGAIN): _FENCED,
    (TransactionState.EMPTY, End.ABORT_AGAIN): _FENCED,
    # An end under the previous epoch comes too late: the producer has a new transaction.
    (TransactionState.ONGOING, End.COMMIT): TransactionEvent.COMMIT,
    (TransactionState.ONGOING, End.ABORT): TransactionEvent.ABORT,
    (TransactionState.ONGOING, End.COMMIT_AGAIN): _FENCED,
    (TransactionState.ONGOING, End.ABORT_AGAIN): _FENCED,
    # The decision is stored and its markers are being written: the client asks again, and gets the
    # answer of one of the completed states.
    (TransactionState.PREPARE_COMMIT, End.COMMIT): _WAIT,
    (TransactionState.PREPARE_COMMIT, End.ABORT): _WAIT,
    (TransactionState.PREPARE_COMMIT, End.COMMIT_AGAIN): _WAIT,
    (TransactionState.PREPARE_COMMIT, End.ABORT_AGAIN): _WAIT,
    (TransactionState.PREPARE_ABORT, End.COMMIT): _WAIT,
    (TransactionState.PREPARE_ABORT, End.ABORT): _WAIT,
    (TransactionState.PREPARE_ABORT, End.COMMIT_AGAIN): _WAIT,
    (TransactionState.PREPARE_ABORT, End.ABORT_AGAIN): _WAIT,
    # Completed. The same end again is a retry whose answer was lost; the other end contradicts what
    # was decided.
    (TransactionState.COMPLETE_COMMIT, End.COMMIT): _WRONG,
    (TransactionState.COMPLETE_COMMIT, End.ABORT): TransactionEvent.ABORT,
    (TransactionState.COMPLETE_COMMIT, End.COMMIT_AGAIN): DONE,
    (TransactionState.COMPLETE_COMMIT, End.ABORT_AGAIN): _WRONG,
    (TransactionState.COMPLETE_ABORT, End.COMMIT): _WRONG,
    (TransactionState.COMPLETE_ABORT, End.ABORT): TransactionEvent.ABORT,
    (TransactionState.COMPLETE_ABORT, End.COMMIT_AGAIN): _WRONG,
    (TransactionState.COMPLETE_ABORT, End.ABORT_AGAIN): DONE,
}
"""The transition or the answer for each end; a retry that comes late, in the producer's next
transaction, is fenced."""


def judge_end(
    record: TransactionRecord, producer: Producer, *, is_commit: bool
) -> TransactionEvent | ErrorCode:
    """The event that ends the transaction; or an error code, which may be `DONE`.

    `is_commit`: the end that is requested. The epoch of the producer alone shows whether it means
    the current transaction or the previous one, since every end raises it (KIP-890).
    """
    if producer == record.successor or (producer == record.producer and not record.is_kept):
        asked = End.COMMIT if is_commit else End.ABORT
    elif was_before(record, producer):
        asked = End.COMMIT_AGAIN if is_commit else End.ABORT_AGAIN
    elif producer.producer_id != record.producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    else:
        return _FENCED
    return ENDS[record.state, asked]


def was_before(record: TransactionRecord, producer: Producer) -> bool:
    """Whether this was the current producer until the last change of epoch or id."""
    current = record.producer
    if producer.producer_id in (current.producer_id, record.next_id):
        # The producer did not get the answer with its next epoch, so it is one short of the record.
        epoch = ProducerEpoch(producer.epoch + 1)
        return producer._replace(epoch=epoch) in (current, record.successor)
    # The epochs of its previous id were used up: that producer ended under EPOCH_LAST, and has not
    # seen the answer with the new id, which is still in its first epoch.
    was_its_id = record.previous_id not in (NO_PRODUCER_ID, current.producer_id)
    return was_its_id and producer == (record.previous_id, EPOCH_LAST) and current.epoch == 0


def ended(
    record: TransactionRecord, event: TransactionEvent, next_id: ProducerId, wall_ms: int
) -> TransactionRecord:
    """The record with the decision. Its markers carry the next epoch and so fence this one.
    `next_id`: the producer's next id, because its epochs are used up. A producer that ends a kept
    transaction continues with its own next epoch."""
    producer = record.producer
    is_open = record.state is TransactionState.ONGOING
    next_epoch = FIRST_EPOCH
    # KIP-939: the producer that wrote has its own epochs; the one that ends has another identity.
    if record.is_kept and next_id == NO_PRODUCER_ID:
        next_id, next_epoch = record.next_id, ProducerEpoch(record.next_epoch + 1)
    return record.moved(
        event,
        producer=producer._replace(epoch=ProducerEpoch(producer.epoch + 1)),
        next_id=next_id,
        next_epoch=next_epoch,
        version=VERSION_2,
        partitions=record.partitions if is_open else frozenset(),
        updated_ms=wall_ms,
        started_ms=record.started_ms if is_open else wall_ms,
    )


def taken_away(record: TransactionRecord, wall_ms: int) -> TransactionRecord:
    """The record aborted by the coordinator, under an epoch that neither its producer nor the
    keeper of a prepared transaction ever had: both are fenced."""
    producer, successor = record.producer, record.successor
    is_of_its_id = successor.producer_id == producer.producer_id
    newest = successor.epoch if is_of_its_id else producer.epoch
    # The next epoch is the one that an end by the producer itself would use (KIP-890): it is
    # skipped, so that the two cannot be confused.
    step = 2 if record.version == VERSION_2 else 1
    return record.moved(
        TransactionEvent.ABORT,
        producer=producer._replace(epoch=ProducerEpoch(min(newest + step, EPOCH_MAX))),
        next_id=NO_PRODUCER_ID,
        next_epoch=FIRST_EPOCH,
        updated_ms=wall_ms,
    )


def completed(record: TransactionRecord, wall_ms: int) -> TransactionRecord:
    """The record after every marker is written."""
    assert record.state in PREPARED
    rotates = record.next_id not in (NO_PRODUCER_ID, record.producer.producer_id)
    return record.moved(
        TransactionEvent.MARKED,
        producer=record.successor,
        previous_id=record.producer.producer_id if rotates else record.previous_id,
        next_id=NO_PRODUCER_ID,
        next_epoch=FIRST_EPOCH,
        partitions=frozenset(),
        updated_ms=wall_ms,
    )
