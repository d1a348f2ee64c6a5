"""What goes into the transaction coordinator and what comes out: requests, answers, effects.

All of them are values. Times are milliseconds of the wall clock: a transaction's timeout goes on
counting at the next coordinator.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition
from josefine_broker.engine.transactions.states import (
    TransactionEvent,
    TransactionState,
    next_state,
)

Ticket = object
"""Who waits for an answer: opaque here, and given back with it."""

NO_PRODUCER_ID = ProducerId(-1)
NO_EPOCH = ProducerEpoch(-1)
NO_TIME_MS = -1
EPOCH_MAX = 2**15 - 1
"""Reached by fencing alone: a producer that asks for an epoch so large gets a new id (KIP-360)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker's configuration of transactions; the defaults are Kafka's, but for the number of
    partitions: 50 are for clusters larger than this broker is for."""

    partitions: int = 8
    """Of `__transaction_state`."""
    timeout_max_ms: int = 900_000
    """A producer cannot ask for a longer transaction (transaction.max.timeout.ms)."""
    id_expiration_ms: int = 7 * 24 * 3_600_000
    """A transactional id that nobody used for so long is forgotten."""


class Producer(NamedTuple):
    """Who writes in a transaction."""

    producer_id: ProducerId
    epoch: ProducerEpoch


NOBODY = Producer(NO_PRODUCER_ID, NO_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """What is stored of a transactional id."""

    producer: Producer
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int
    started_ms: int = NO_TIME_MS
    """When the transaction began that is open, or was last."""

    def moved(self, event: TransactionEvent, **changes: object) -> "TransactionRecord":
        """This record after `event`. Raises Fatal where the table does not list it."""
        return replace(self, state=next_state(self.state, event), **changes)  # type: ignore[arg-type]

    def is_overdue(self, wall_ms: int) -> bool:
        """Whether its transaction is open for longer than its producer allowed."""
        is_open = self.state is TransactionState.ONGOING
        return is_open and wall_ms - self.started_ms > self.timeout_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """An InitProducerId with a transactional id."""

    timeout_ms: int
    claimed: Producer = NOBODY
    """Who asks says that it is this one (KIP-360); NOBODY: it begins."""


class TransactionAnswer(NamedTuple):
    """What a request is told; the producer for an InitProducerId."""

    error: ErrorCode = ErrorCode.none
    producer: Producer = NOBODY


class Answer(NamedTuple):
    """Effect: a request is answered."""

    ticket: Ticket
    answer: TransactionAnswer


class Store(NamedTuple):
    """Effect: make this record durable on every in-sync replica, and say so to `stored`, always.
    None: the id is forgotten."""

    transactional_id: str
    write_id: int
    record: TransactionRecord | None


class Mark(NamedTuple):
    """Effect: write the end of the transaction into these partitions, and tell `marked`, always."""

    transactional_id: str
    mark_id: int
    producer: Producer
    is_commit: bool
    partitions: frozenset[TopicPartition]


Effect = Answer | Store | Mark
NewId = Callable[[], ProducerId]
"""An id that nobody had before."""
