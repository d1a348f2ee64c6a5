"""The transactions that a broker coordinates: who may write in them, and how each ends (KIP-98,
KIP-360).

The host calls an input, then does what `take_effects` says, in order: a `Store` is settled by
`stored`, a `Mark` by `marked`, whatever became of them. It calls `tick` every now and then. One
`coordinator` per broker; which ids are its own is the host's business (`load`, `unload`).

Rules:
- one change of an id is on its way at a time; who comes meanwhile is told CONCURRENT_TRANSACTIONS,
  which every client asks again after;
- a change counts when it is stored; one that could not be stored changes nothing here;
- what is prepared is decided for good: markers are asked for again until each is written, by the
  next coordinator too;
- a producer of an older epoch is fenced; a transaction that outlasts its timeout, or whose id
  another producer takes, is aborted under the next epoch, so that its producer writes nothing more.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, TopicPartition
from josefine_broker.engine.transactions.states import (
    IDLE,
    PREPARED,
    TransactionEvent,
    TransactionState,
)
from josefine_broker.engine.transactions.values import (
    EPOCH_MAX,
    NO_EPOCH,
    NOBODY,
    Answer,
    Effect,
    Init,
    Mark,
    NewId,
    Producer,
    Store,
    Ticket,
    TransactionAnswer,
    TransactionRecord,
    TransactionSettings,
)

RETRY_MS = 1_000
"""Between two attempts to store what nobody asks again for."""


class TransactionView(NamedTuple):
    """A transactional id as admins see it."""

    transactional_id: str
    record: TransactionRecord


class _Pending(NamedTuple):
    """A change on its way to the log."""

    write_id: int
    record: TransactionRecord | None
    before: Producer
    ticket: Ticket | None
    answer: TransactionAnswer


class _Transaction:
    """One transactional id. Mutable."""

    __slots__ = ("asked", "last", "pending", "record", "retry_ms", "unmarked")

    def __init__(self, record: TransactionRecord) -> None:
        self.record = record
        self.last = NOBODY
        """Who had the id before, as far as this coordinator saw it."""
        self.pending: _Pending | None = None
        self.unmarked: frozenset[TopicPartition] = (
            record.partitions if record.state in PREPARED else frozenset()
        )
        """Partitions whose marker is still to be written,"""
        self.asked: dict[TopicPartition, int] = {}
        """and by which `Mark` it is asked for now."""
        self.retry_ms = 0


class TransactionCoordinator:
    """Mutable: the transactions, and what is to be done."""

    __slots__ = ("_busy", "_effects", "_ids", "_transactions", "settings")

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self._transactions: dict[str, _Transaction] = {}
        self._busy: dict[str, None] = {}
        """Those that are open or prepared: time may have something to do with them."""
        self._effects: list[Effect] = []
        self._ids = count(1)

    def __len__(self) -> int:
        return len(self._transactions)

    # Requests of producers. Each is answered by an effect, now or later.

    def init(
        self, transactional_id: str, request: Init, ticket: Ticket, wall_ms: int, new_id: NewId
    ) -> None:
        """A producer takes the id, or takes it over."""
        if not 0 < request.timeout_ms <= self.settings.timeout_max_ms:
            self._refuse(ticket, ErrorCode.invalid_transaction_timeout)
            return
        found = self._transactions.get(transactional_id)
        if found is None:
            record = TransactionRecord(
                producer=Producer(new_id(), ProducerEpoch(0)),
                timeout_ms=request.timeout_ms,
                state=TransactionState.EMPTY,
                updated_ms=wall_ms,
            )
            found = self._transactions[transactional_id] = _Transaction(record)
            answer = TransactionAnswer(producer=record.producer)
            self._store(transactional_id, found, record, ticket, answer)
            return
        if found.pending is not None:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
        elif not _is_of(found, request.claimed):
            self._refuse(ticket, ErrorCode.producer_fenced)
        elif found.record.state is TransactionState.ONGOING:
            self._abort(transactional_id, found, wall_ms)
            self._refuse(ticket, ErrorCode.concurrent_transactions)
        elif found.record.state in PREPARED:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
        else:
            producer = _next_producer(found, request.claimed, new_id)
            if producer is None:
                self._refuse(ticket, ErrorCode.producer_fenced)
                return
            record = found.record.moved(
                TransactionEvent.INIT,
                producer=producer,
                timeout_ms=request.timeout_ms,
                partitions=frozenset(),
                updated_ms=wall_ms,
                started_ms=-1,
            )
            answer = TransactionAnswer(producer=producer)
            self._store(transactional_id, found, record, ticket, answer)

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        ticket: Ticket,
        wall_ms: int,
    ) -> None:
        """The producer is about to write there; the first of them begins a transaction."""
        found = self._of(transactional_id, producer, ticket)
        if found is None:
            return
        record = found.record
        if record.state in PREPARED:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
        elif not partitions or _has(record, partitions):
            self._effects.append(Answer(ticket, TransactionAnswer()))
        else:
            is_open = record.state is TransactionState.ONGOING
            joined = record.partitions if is_open else frozenset()
            after = record.moved(
                TransactionEvent.ADD,
                partitions=joined | frozenset(partitions),
                updated_ms=wall_ms,
                started_ms=record.started_ms if is_open else wall_ms,
            )
            self._store(transactional_id, found, after, ticket, TransactionAnswer())

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        ticket: Ticket,
        wall_ms: int,
        *,
        is_commit: bool,
    ) -> None:
        """Answered when the decision is stored; the markers follow."""
        found = self._of(transactional_id, producer, ticket)
        if found is None:
            return
        record = found.record
        if record.state is TransactionState.ONGOING:
            event = TransactionEvent.COMMIT if is_commit else TransactionEvent.ABORT
            after = record.moved(event, updated_ms=wall_ms)
            self._store(transactional_id, found, after, ticket, TransactionAnswer())
        else:
            self._refuse(ticket, _END_AGAIN.get((record.state, is_commit), _NOT_OPEN))

    # Admins.

    def views(self) -> list[TransactionView]:
        """Every id that is stored, by name."""
        return [view for each in sorted(self._transactions) if (view := self.view(each))]

    def view(self, transactional_id: str) -> TransactionView | None:
        found = self._transactions.get(transactional_id)
        if found is None or _is_new(found):
            return None
        return TransactionView(transactional_id, found.record)

    # What became of the effects.

    def stored(self, transactional_id: str, write_id: int, error: ErrorCode, wall_ms: int) -> None:
        """What became of a `Store`."""
        found = self._transactions.get(transactional_id)
        if found is None or found.pending is None or found.pending.write_id != write_id:
            return  # the leadership went meanwhile
        pending, is_new = found.pending, _is_new(found)
        found.pending = None
        if error is not ErrorCode.none:
            found.retry_ms = wall_ms + RETRY_MS
            if is_new:
                self._forget(transactional_id)
            if pending.ticket is not None:
                self._refuse(pending.ticket, error)
            return
        if pending.record is None:
            self._forget(transactional_id)
            return
        if pending.record.producer != pending.before:
            found.last = pending.before
        found.record = pending.record
        found.retry_ms = 0
        if pending.ticket is not None:
            self._effects.append(Answer(pending.ticket, pending.answer))
        if found.record.state in PREPARED:
            found.unmarked = found.record.partitions
            found.asked.clear()
            self._mark(transactional_id, found, wall_ms)
        if found.record.state in IDLE:
            self._busy.pop(transactional_id, None)
        else:
            self._busy[transactional_id] = None

    def marked(
        self,
        transactional_id: str,
        mark_id: int,
        partitions: Collection[TopicPartition],
        wall_ms: int,
        *,
        is_written: bool,
    ) -> None:
        """What became of (a part of) a `Mark`; the rest is asked for again at a `tick`."""
        found = self._transactions.get(transactional_id)
        if found is None:
            return
        ours = {each for each in partitions if found.asked.get(each) == mark_id}
        for each in ours:
            del found.asked[each]
        if is_written and ours:
            found.unmarked -= ours
            self._complete(transactional_id, found, wall_ms)

    # The log.

    def load(self, stored: Mapping[str, TransactionRecord], wall_ms: int) -> None:
        """These ids are coordinated here now; what was decided is completed."""
        for transactional_id, record in stored.items():
            found = self._transactions[transactional_id] = _Transaction(record)
            if record.state not in IDLE:
                self._busy[transactional_id] = None
            if record.state in PREPARED:
                self._mark(transactional_id, found, wall_ms)

    def unload(self, is_gone: Callable[[str], bool]) -> None:
        """Other brokers coordinate these ids now: who waits is sent to look for them."""
        for transactional_id in [each for each in self._transactions if is_gone(each)]:
            pending = self._transactions[transactional_id].pending
            if pending is not None and pending.ticket is not None:
                self._refuse(pending.ticket, ErrorCode.not_coordinator)
            self._forget(transactional_id)

    # Time, and what is to be done.

    def tick(self, wall_ms: int) -> None:
        """Abort what is overdue; ask again for markers and stores that failed."""
        for transactional_id in tuple(self._busy):
            found = self._transactions[transactional_id]
            if found.pending is not None or wall_ms < found.retry_ms:
                continue
            if found.record.is_overdue(wall_ms):
                self._abort(transactional_id, found, wall_ms)
            elif found.record.state in PREPARED:
                self._mark(transactional_id, found, wall_ms)

    def expire(self, wall_ms: int) -> Iterator[None]:
        """In steps: forget the ids that nobody used for long."""
        for transactional_id in tuple(self._transactions):
            found = self._transactions.get(transactional_id)
            if found is not None and self._is_old(found, wall_ms):
                found.record.moved(TransactionEvent.EXPIRE)
                self._store(transactional_id, found, None, None, TransactionAnswer())
            yield None

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # Within.

    def _is_old(self, found: _Transaction, wall_ms: int) -> bool:
        record = found.record
        is_idle = record.state in IDLE and found.pending is None
        return is_idle and wall_ms - record.updated_ms > self.settings.id_expiration_ms

    def _abort(self, transactional_id: str, found: _Transaction, wall_ms: int) -> None:
        """For nobody who asked: its producer is fenced by it."""
        producer = found.record.producer
        epoch = ProducerEpoch(min(producer.epoch + 1, EPOCH_MAX))
        after = found.record.moved(
            TransactionEvent.ABORT, producer=producer._replace(epoch=epoch), updated_ms=wall_ms
        )
        self._store(transactional_id, found, after, None, TransactionAnswer())

    def _mark(self, transactional_id: str, found: _Transaction, wall_ms: int) -> None:
        """Ask for the markers that nobody is asked for now."""
        record = found.record
        missing = found.unmarked - found.asked.keys()
        if missing:
            mark_id = next(self._ids)
            found.asked.update(dict.fromkeys(missing, mark_id))
            is_commit = record.state is TransactionState.PREPARE_COMMIT
            self._effects.append(
                Mark(transactional_id, mark_id, record.producer, is_commit, missing)
            )
        self._complete(transactional_id, found, wall_ms)

    def _complete(self, transactional_id: str, found: _Transaction, wall_ms: int) -> None:
        """Every marker is written: so it is over."""
        if found.unmarked or found.pending is not None or found.record.state not in PREPARED:
            return
        after = found.record.moved(
            TransactionEvent.MARKED, partitions=frozenset(), updated_ms=wall_ms
        )
        self._store(transactional_id, found, after, None, TransactionAnswer())

    def _store(
        self,
        transactional_id: str,
        found: _Transaction,
        record: TransactionRecord | None,
        ticket: Ticket | None,
        answer: TransactionAnswer,
    ) -> None:
        assert found.pending is None, "a change is on its way"
        write_id = next(self._ids)
        before = NOBODY if _is_first(record, found) else found.record.producer
        found.pending = _Pending(write_id, record, before, ticket, answer)
        self._effects.append(Store(transactional_id, write_id, record))

    def _of(self, transactional_id: str, producer: Producer, ticket: Ticket) -> _Transaction | None:
        """The transaction of this producer; None: it has none, and the ticket is told why."""
        found = self._transactions.get(transactional_id)
        code = _check_producer(found, producer)
        if code is ErrorCode.none:
            return found
        self._refuse(ticket, code)
        return None

    def _refuse(self, ticket: Ticket, code: ErrorCode) -> None:
        self._effects.append(Answer(ticket, TransactionAnswer(code)))

    def _forget(self, transactional_id: str) -> None:
        del self._transactions[transactional_id]
        self._busy.pop(transactional_id, None)


_NOT_OPEN = ErrorCode.invalid_txn_state
_END_AGAIN: dict[tuple[TransactionState, bool], ErrorCode] = {
    (TransactionState.PREPARE_COMMIT, True): ErrorCode.concurrent_transactions,
    (TransactionState.PREPARE_ABORT, False): ErrorCode.concurrent_transactions,
    (TransactionState.COMPLETE_COMMIT, True): ErrorCode.none,
    (TransactionState.COMPLETE_ABORT, False): ErrorCode.none,
}
"""What an end is told when none is open: asked again for the same end, it is under way, or done."""


def _has(record: TransactionRecord, partitions: Collection[TopicPartition]) -> bool:
    """Whether its open transaction has them already."""
    return record.state is TransactionState.ONGOING and record.partitions.issuperset(partitions)


def _is_first(record: TransactionRecord | None, found: _Transaction) -> bool:
    return record is found.record


def _is_new(found: _Transaction) -> bool:
    """Whether its very first record is on its way."""
    return found.pending is not None and found.pending.before == NOBODY


def _check_producer(found: _Transaction | None, producer: Producer) -> ErrorCode:
    if found is None or _is_new(found):
        return ErrorCode.invalid_producer_id_mapping
    if found.record.producer.producer_id != producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if found.record.producer.epoch != producer.epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.none if found.pending is None else ErrorCode.concurrent_transactions


def _is_of(found: _Transaction, claimed: Producer) -> bool:
    """Whether who claims to be that producer may have the id, as far as its id says."""
    if claimed == NOBODY:
        return True
    return claimed.producer_id in (found.record.producer.producer_id, found.last.producer_id)


def _next_producer(found: _Transaction, claimed: Producer, new_id: NewId) -> Producer | None:
    """Who has the id from now on; None: who asks is fenced."""
    current = found.record.producer
    if claimed != NOBODY and claimed != current:
        # It asks again: its last answer was lost, and nobody came between.
        is_retry = found.last.epoch != NO_EPOCH and claimed == found.last
        return current if is_retry else None
    if current.epoch + 1 >= EPOCH_MAX:
        return Producer(new_id(), ProducerEpoch(0))
    return current._replace(epoch=ProducerEpoch(current.epoch + 1))
