"""One transactional id as its coordinator has it, and what may be asked of it.

Rules: it has one change on its way at a time; who waits for that, waits in order. Nothing here
stores or answers: that is the coordinator's.
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
    """A change on its way to the log."""

    write_id: int
    record: TransactionRecord | None
    before: Producer
    tickets: tuple[Ticket, ...]
    """Who waits for it."""
    answer: TransactionAnswer
    is_takeover: bool = False
    """By one that claims to be nobody of before: who was cannot ask for its answer again."""


class Joining(NamedTuple):
    """Partitions that are added when nothing is on its way any more."""

    producer: Producer
    partitions: Collection[TopicPartition]
    ticket: Ticket
    version: int


class Taking(NamedTuple):
    """A producer that has the id when nothing of it is on its way any more."""

    request: Init
    ticket: Ticket
    new_id: NewId
    until_ms: int
    """By the monotonic clock: then it is to ask again."""


class Transaction:
    """One transactional id. Mutable."""

    __slots__ = (
        "asked", "due_ms", "last", "pending", "record", "retry_ms", "taking", "transactional_id",
        "unmarked", "waiting",
    )  # fmt: skip

    def __init__(self, transactional_id: str, record: TransactionRecord, due_ms: int = 0) -> None:
        self.transactional_id = transactional_id
        self.record = record
        self.due_ms = due_ms
        """Until then it may be open, by the monotonic clock."""
        self.last = NOBODY
        """Who had the id before, as far as this coordinator saw it, and may have it again."""
        self.pending: Pending | None = None
        self.unmarked: frozenset[TopicPartition] = (
            record.partitions if record.state in PREPARED else frozenset()
        )
        """Partitions whose marker is still to be written,"""
        self.asked: dict[TopicPartition, int] = {}
        """and by which `Mark` it is asked for now."""
        self.retry_ms = 0
        self.waiting: list[Joining] = []
        self.taking: list[Taking] = []
        """Before those who join: it takes the id from them."""

    @property
    def is_free(self) -> bool:
        """Whether nothing of it is on its way, nor decided and not completed."""
        return self.pending is None and self.record.state not in PREPARED

    def is_overdue(self, now: Now) -> bool:
        """Whether it is open for longer than its producer allowed."""
        return self.record.state is TransactionState.ONGOING and now.monotonic_ms > self.due_ms


def has(record: TransactionRecord, partitions: Collection[TopicPartition]) -> bool:
    """Whether its open transaction has them already, and may be written to."""
    is_open = record.state is TransactionState.ONGOING and not record.is_kept
    return is_open and record.partitions.issuperset(partitions)


def is_first(record: TransactionRecord | None, found: Transaction) -> bool:
    """Whether it is the record that the id began with."""
    return record is found.record


def is_new(found: Transaction) -> bool:
    """Whether its very first record is on its way."""
    return found.pending is not None and found.pending.before == NOBODY


def is_adding(found: Transaction) -> bool:
    """Whether what is on its way leaves the transaction open."""
    after = None if found.pending is None else found.pending.record
    return after is not None and after.state is TransactionState.ONGOING


def is_completing(found: Transaction) -> bool:
    """Whether what is on its way says that what was decided is marked everywhere."""
    after = None if found.pending is None else found.pending.record
    return after is not None and found.record.state in PREPARED and after.state in IDLE


def check_identity(found: Transaction | None, producer: Producer) -> ErrorCode:
    """Whether the id is this producer's now, or once its transaction is completed."""
    if found is None or is_new(found):
        return ErrorCode.invalid_producer_id_mapping
    return check_holder(found.record, producer)


def check_holder(record: TransactionRecord, producer: Producer) -> ErrorCode:
    """The same of a record."""
    if producer == record.successor:
        return ErrorCode.none
    if record.producer.producer_id != producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if record.is_kept or record.producer.epoch != producer.epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.none


def check_producer(found: Transaction | None, producer: Producer) -> ErrorCode:
    """The same of who wants something changed: nothing is on its way."""
    code = check_identity(found, producer)
    if found is None or code is not ErrorCode.none or found.pending is None:
        return code
    return ErrorCode.concurrent_transactions


def is_of(found: Transaction, claimed: Producer) -> bool:
    """Whether who claims to be that producer may have the id, as far as its id says."""
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
    """Who has the id from now on; or what who asks is told."""
    current = found.record.producer
    if claimed != NOBODY and claimed != current:
        # It asks again: its last answer was lost, and nobody came between.
        is_retry = found.last.epoch != NO_EPOCH and claimed == found.last
        rotated = claimed.producer_id != current.producer_id and was_before(found.record, claimed)
        return current if is_retry or rotated else ErrorCode.producer_fenced
    return _following(current, new_id)


def timeout_of(request: Init, settings: TransactionSettings) -> int | ErrorCode:
    """How long a transaction of who asks may be open; or why it may have none."""
    if (request.two_phase or request.keeps) and not settings.two_phase_enable:
        return ErrorCode.transactional_id_authorization_failed
    if request.two_phase:
        return settings.two_phase_timeout_max_ms
    if not 0 < request.timeout_ms <= settings.timeout_max_ms:
        return ErrorCode.invalid_transaction_timeout
    return request.timeout_ms


def keeper(record: TransactionRecord, claimed: Producer, new_id: NewId) -> Producer | ErrorCode:
    """Who ends the transaction that is open, and writes no more into it; or what who asks is told.
    It may be asked again and again: each time who asked before is fenced."""
    if claimed not in (NOBODY, record.successor):
        return ErrorCode.producer_fenced
    return _following(record.successor, new_id)


def _following(producer: Producer, new_id: NewId) -> Producer | ErrorCode:
    """Without an id at hand it is to ask again."""
    if producer.epoch >= EPOCH_LAST:
        next_id = new_id()
        if next_id is None:
            return ErrorCode.concurrent_transactions
        return Producer(next_id, FIRST_EPOCH)
    return producer._replace(epoch=ProducerEpoch(producer.epoch + 1))
