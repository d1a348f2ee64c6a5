"""One transactional id in its coordinator, and the checks of requests for it.

Rules: one change is in flight at a time; requests that wait for its end wait in order. Nothing here
stores or answers: that is the coordinator's task.
"""

from collections.abc import Collection
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, TopicPartition
from josefine_broker.engine.transactions.ending import was_before
from josefine_broker.engine.transactions.states import IDLE, PREPARED, TransactionState
from josefine_broker.engine.transactions.values import (
    EPOCH_LAST,
    FIRST_EPOCH,
    NO_EPOCH,
    NOBODY,
    Init,
    NewId,
    Now,
    Producer,
    Ticket,
    TransactionAnswer,
    TransactionRecord,
    TransactionSettings,
)


class Pending(NamedTuple):
    """A change in flight to the log."""

    write_id: int
    record: TransactionRecord | None
    before: Producer
    tickets: tuple[Ticket, ...]
    """The requests that wait for it."""
    answer: TransactionAnswer
    is_takeover: bool = False
    """By a producer that does not claim an earlier identity: the previous one cannot retry."""


class Joining(NamedTuple):
    """Partitions to add once no change is in flight."""

    producer: Producer
    partitions: Collection[TopicPartition]
    ticket: Ticket
    version: int


class Taking(NamedTuple):
    """A producer that takes the id once no change is in flight."""

    request: Init
    ticket: Ticket
    new_id: NewId
    until_ms: int
    """On the monotonic clock: after this it has to retry."""


class Transaction:
    """A transactional id with its waiting requests. Mutable."""

    __slots__ = (
        "asked", "due_ms", "last", "pending", "record", "retry_ms", "taking", "transactional_id",
        "unmarked", "waiting",
    )  # fmt: skip

    def __init__(self, transactional_id: str, record: TransactionRecord, due_ms: int = 0) -> None:
        self.transactional_id = transactional_id
        # The last record that is known to be in the log: a change in flight does not show here
        # before it is stored. Of a new id it is the first record, which is in flight.
        self.record = record
        self.due_ms = due_ms
        """The deadline of the open transaction, on the monotonic clock."""
        self.last = NOBODY
        """The previous producer of the id, if this coordinator saw it and its retry is allowed."""
        self.pending: Pending | None = None
        self.unmarked: frozenset[TopicPartition] = (
            record.partitions if record.state in PREPARED else frozenset()
        )
        """Partitions whose marker is still to be written,"""
        self.asked: dict[TopicPartition, int] = {}
        """and the `Mark` that requests it at the moment."""
        self.retry_ms = 0
        """Monotonic: what failed is not repeated by `tick` before this time."""
        self.waiting: list[Joining] = []
        """Requests that add partitions, which the next record adds all at once."""
        self.taking: list[Taking] = []
        """Served before `waiting`: they take the id away from those."""

    @property
    def is_free(self) -> bool:
        """Whether no change is in flight, and no decided transaction has to be completed."""
        return self.pending is None and self.record.state not in PREPARED

    def is_overdue(self, now: Now) -> bool:
        """Whether it is open for longer than its producer's timeout."""
        return self.record.state is TransactionState.ONGOING and now.monotonic_ms > self.due_ms


def has(record: TransactionRecord, partitions: Collection[TopicPartition]) -> bool:
    """Whether the partitions are in the open transaction already, and may be written to.

    A kept transaction takes no more writes (KIP-939): it was prepared, and only its end is left.
    """
    is_open = record.state is TransactionState.ONGOING and not record.is_kept
    return is_open and record.partitions.issuperset(partitions)


def is_first(record: TransactionRecord | None, found: Transaction) -> bool:
    """Whether it is the first record of the id."""
    return record is found.record


def is_new(found: Transaction) -> bool:
    """Whether the first record of the id is in flight."""
    return found.pending is not None and found.pending.before == NOBODY


def is_adding(found: Transaction) -> bool:
    """Whether the change in flight leaves the transaction open."""
    after = None if found.pending is None else found.pending.record
    return after is not None and after.state is TransactionState.ONGOING


def is_completing(found: Transaction) -> bool:
    """Whether the change in flight completes a transaction whose markers are all written."""
    after = None if found.pending is None else found.pending.record
    return after is not None and found.record.state in PREPARED and after.state in IDLE


def check_identity(found: Transaction | None, producer: Producer) -> ErrorCode:
    """Whether the id belongs to this producer, now or once its transaction is completed."""
    if found is None or is_new(found):
        return ErrorCode.invalid_producer_id_mapping
    return check_holder(found.record, producer)


def check_holder(record: TransactionRecord, producer: Producer) -> ErrorCode:
    """The same check for a record."""
    # KIP-890: a version 2 producer continues under its next epoch as soon as its end is answered,
    # while the markers of that end are still being written.
    if producer == record.successor:
        return ErrorCode.none
    # Kafka's order: first the producer id, then its epoch, each with an error of its own.
    if record.producer.producer_id != producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if record.is_kept or record.producer.epoch != producer.epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.none


def check_producer(found: Transaction | None, producer: Producer) -> ErrorCode:
    """The same check for a change: none may be in flight."""
    code = check_identity(found, producer)
    if found is None or code is not ErrorCode.none or found.pending is None:
        return code
    return ErrorCode.concurrent_transactions


def is_of(found: Transaction, claimed: Producer) -> bool:
    """Whether a producer with this claim may take the id, as far as its producer id shows."""
    if claimed == NOBODY:
        return True
    record = found.record
    known = (
        record.producer.producer_id,
        found.last.producer_id,
        record.next_id,
        record.previous_id,
    )
    return claimed.producer_id in known


def next_producer(found: Transaction, claimed: Producer, new_id: NewId) -> Producer | ErrorCode:
    """The next producer of the id; or the error for the request.

    `claimed` is the identity in the request (KIP-360), NOBODY for a producer that starts. A claim
    that is neither the current producer nor a retry of the previous one is refused with
    PRODUCER_FENCED: another process has the id.
    """
    current = found.record.producer
    if claimed != NOBODY and claimed != current:
        # A retry: the last answer was lost, and no other producer has come in between.
        # KIP-360: a producer may ask to be bumped, and ask again without knowing that it was.
        is_retry = found.last.epoch != NO_EPOCH and claimed == found.last
        rotated = claimed.producer_id != current.producer_id and was_before(found.record, claimed)
        return current if is_retry or rotated else ErrorCode.producer_fenced
    return _following(current, new_id)


def timeout_of(request: Init, settings: TransactionSettings) -> int | ErrorCode:
    """The timeout of the caller's transactions; or the error for the request."""
    if (request.two_phase or request.keeps) and not settings.two_phase_enable:
        return ErrorCode.transactional_id_authorization_failed
    # KIP-939: an external coordinator decides when it ends, so a short timeout must not.
    if request.two_phase:
        return settings.two_phase_timeout_max_ms
    if not 0 < request.timeout_ms <= settings.timeout_max_ms:
        return ErrorCode.invalid_transaction_timeout
    return request.timeout_ms


def keeper(record: TransactionRecord, claimed: Producer, new_id: NewId) -> Producer | ErrorCode:
    """The producer that ends the open transaction without writing more; or the error for the
    request. A repeated request fences the previous keeper."""
    if claimed not in (NOBODY, record.successor):
        return ErrorCode.producer_fenced
    return _following(record.successor, new_id)


def _following(producer: Producer, new_id: NewId) -> Producer | ErrorCode:
    """The next epoch, or a new id. If none is available the caller has to retry."""
    # The epoch has 16 bits. Under a new producer id it starts again (KIP-360).
    if producer.epoch >= EPOCH_LAST:
        next_id = new_id()
        if next_id is None:
            return ErrorCode.concurrent_transactions
        return Producer(next_id, FIRST_EPOCH)
    return producer._replace(epoch=ProducerEpoch(producer.epoch + 1))
