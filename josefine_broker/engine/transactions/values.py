"""The values of the transaction coordinator: requests, answers, records, effects.

Times are milliseconds of the wall clock: a transaction's timeout continues at the next coordinator.
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
"""The waiting request: opaque here, and returned with its answer."""

NO_PRODUCER_ID = ProducerId(-1)
NO_EPOCH = ProducerEpoch(-1)
FIRST_EPOCH = ProducerEpoch(0)
NO_TIME_MS = -1
EPOCH_MAX = 2**15 - 1
"""Reached only by fencing."""
EPOCH_LAST = EPOCH_MAX - 2
"""The largest epoch of a producer, after which it gets a new id (KIP-360, KIP-890). The two above
are for the marker that fences it, which skips one epoch so that it differs from its own."""

VERSION_1, VERSION_2 = 0, 2
"""The transaction protocol of a producer: it adds partitions itself and keeps its epoch, or leaders
add them and every end raises the epoch (KIP-890). The numbers are those of `transaction.version`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker's transaction settings. The defaults are Kafka's, except for the number of
    partitions: 50 are meant for clusters larger than this broker supports."""

    partitions: int = 8
    """Number of partitions of `__transaction_state`."""
    timeout_max_ms: int = 900_000
    """The longest timeout that a producer may request (transaction.max.timeout.ms)."""
    id_expiration_ms: int = 7 * 24 * 3_600_000
    """A transactional id that is unused for this long is forgotten."""
    two_phase_enable: bool = False
    """Whether producers may take part in a two-phase commit (KIP-939), in which an external
    coordinator decides how and when their transactions end."""
    two_phase_timeout_max_ms: int = 7 * 24 * 3_600_000
    """The longest time that such a transaction may be open, whatever the producer requests: an open
    transaction holds back read_committed."""


class Now(NamedTuple):
    """Both clocks. Stored times are wall clock time, which may be set at any moment; durations are
    measured by the monotonic clock, which only this process can read."""

    wall_ms: int
    monotonic_ms: int


class Producer(NamedTuple):
    """A producer id and its epoch."""

    producer_id: ProducerId
    epoch: ProducerEpoch


NOBODY = Producer(NO_PRODUCER_ID, NO_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """The stored state of a transactional id."""

    producer: Producer
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int
    started_ms: int = NO_TIME_MS
    """The start of the open transaction, or of the last one."""
    previous_id: ProducerId = NO_PRODUCER_ID
    """The previous producer id, whose epochs are used up."""
    next_id: ProducerId = NO_PRODUCER_ID
    """The producer id that applies once every marker is written; none: it does not change. In an
    open transaction: it was prepared, and is kept for this producer to end it (KIP-939)."""
    next_epoch: ProducerEpoch = FIRST_EPOCH
    version: int = VERSION_1
    """The protocol version of the producer's last request."""

    @property
    def successor(self) -> Producer:
        """The producer after the transaction is completed; of a kept one, the producer that ends
        it."""
        if self.next_id == NO_PRODUCER_ID:
            return self.producer
        return Producer(self.next_id, self.next_epoch)

    @property
    def is_kept(self) -> bool:
        """Whether the open transaction must be ended by another producer than its writer."""
        return self.state is TransactionState.ONGOING and self.next_id != NO_PRODUCER_ID

    def moved(self, event: TransactionEvent, **changes: object) -> "TransactionRecord":
        """The record after `event`. Raises Fatal where the table does not list it."""
        return replace(self, state=next_state(self.state, event), **changes)  # type: ignore[arg-type]

    def left_ms(self, wall_ms: int) -> int:
        """The remaining time of the open transaction: at most its producer's timeout, whatever the
        wall clock shows."""
        return min(max(self.started_ms + self.timeout_ms - wall_ms, 0), self.timeout_ms)


class TransactionView(NamedTuple):
    """A transactional id for admin clients."""

    transactional_id: str
    record: TransactionRecord
    unended: frozenset[TopicPartition]
    """Partitions of the open transaction; of a prepared one, those that lack their marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """An InitProducerId with a transactional id."""

    timeout_ms: int
    claimed: Producer = NOBODY
    """The producer that the caller claims to be (KIP-360); NOBODY: a new one."""
    two_phase: bool = False
    """It takes part in a two-phase commit (KIP-939), with the broker's maximum as its timeout,"""
    keeps: bool = False
    """and the transaction that its previous process prepared stays open, for it to end."""


class TransactionAnswer(NamedTuple):
    """The answer to a request: the producer for InitProducerId and an end of version 2; `ongoing`
    is the writer of a transaction that was kept."""

    error: ErrorCode = ErrorCode.none
    producer: Producer = NOBODY
    ongoing: Producer = NOBODY


class Answer(NamedTuple):
    """Effect: answer a request."""

    ticket: Ticket
    answer: TransactionAnswer


class Store(NamedTuple):
    """Effect: make this record durable on every in-sync replica, and report the result to `stored`
    in any case. None: the id is deleted."""

    transactional_id: str
    write_id: int
    record: TransactionRecord | None


class Mark(NamedTuple):
    """Effect: write markers to these partitions, and report the result to `marked` in any case."""

    transactional_id: str
    mark_id: int
    producer: Producer
    is_commit: bool
    partitions: frozenset[TopicPartition]
    version: int = VERSION_1


Effect = Answer | Store | Mark
NewId = Callable[[], ProducerId | None]
"""Returns a new producer id; None: none is available now."""
