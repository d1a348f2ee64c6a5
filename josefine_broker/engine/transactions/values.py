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
FIRST_EPOCH = ProducerEpoch(0)
NO_TIME_MS = -1
EPOCH_MAX = 2**15 - 1
"""Reached by fencing alone."""
EPOCH_LAST = EPOCH_MAX - 2
"""The largest that a producer is given: then it gets a new id (KIP-360, KIP-890). The two above are
for the marker that fences it, which skips one so that it does not look like its own."""

VERSION_1, VERSION_2 = 0, 2
"""Of the protocol that a producer speaks: it adds partitions itself and keeps its epoch, or leaders
add them and every end raises it (KIP-890). The numbers are those of `transaction.version`."""


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
    two_phase_enable: bool = False
    """Whether producers may take part in a two-phase commit (KIP-939): somebody else decides how
    their transactions end, and when."""
    two_phase_timeout_max_ms: int = 7 * 24 * 3_600_000
    """So long may a transaction of theirs be open, whatever they ask for: what is open holds
    read_committed back."""


class Now(NamedTuple):
    """What is stored has the time of day, which may be set at any moment; how long something lasts
    is told by the other clock, which this process alone can read."""

    wall_ms: int
    monotonic_ms: int


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
    previous_id: ProducerId = NO_PRODUCER_ID
    """Its producer's before the epochs of that were used up."""
    next_id: ProducerId = NO_PRODUCER_ID
    """The producer's from the moment on when every marker is written; none: it keeps its id. Of an
    open transaction: it was prepared, and is kept for this one to end it (KIP-939)."""
    next_epoch: ProducerEpoch = FIRST_EPOCH
    version: int = VERSION_1
    """That its producer spoke last."""

    @property
    def successor(self) -> Producer:
        """Who goes on when the transaction is completed; who ends one that is kept."""
        if self.next_id == NO_PRODUCER_ID:
            return self.producer
        return Producer(self.next_id, self.next_epoch)

    @property
    def is_kept(self) -> bool:
        """Whether its open transaction is to be ended by another than who wrote it."""
        return self.state is TransactionState.ONGOING and self.next_id != NO_PRODUCER_ID

    def moved(self, event: TransactionEvent, **changes: object) -> "TransactionRecord":
        """This record after `event`. Raises Fatal where the table does not list it."""
        return replace(self, state=next_state(self.state, event), **changes)  # type: ignore[arg-type]

    def left_ms(self, wall_ms: int) -> int:
        """How long its open transaction may last yet: no longer than its producer allowed, whatever
        the clock says."""
        return min(max(self.started_ms + self.timeout_ms - wall_ms, 0), self.timeout_ms)


class TransactionView(NamedTuple):
    """A transactional id as admins see it."""

    transactional_id: str
    record: TransactionRecord
    unended: frozenset[TopicPartition]
    """Partitions in its open transaction; of a prepared one those that lack their marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """An InitProducerId with a transactional id."""

    timeout_ms: int
    claimed: Producer = NOBODY
    """Who asks says that it is this one (KIP-360); NOBODY: it begins."""
    two_phase: bool = False
    """It takes part in a two-phase commit (KIP-939): the broker's bound is its timeout,"""
    keeps: bool = False
    """and what its last process prepared stays open, for it to end."""


class TransactionAnswer(NamedTuple):
    """What a request is told; the producer for an InitProducerId, and an end of version 2; who
    wrote the transaction that was kept."""

    error: ErrorCode = ErrorCode.none
    producer: Producer = NOBODY
    ongoing: Producer = NOBODY


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
    version: int = VERSION_1


Effect = Answer | Store | Mark
NewId = Callable[[], ProducerId | None]
"""An id that nobody had before; None: there is none at hand now."""
