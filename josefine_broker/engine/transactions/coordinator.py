"""The transactions that a broker coordinates: who may write in them, and how each ends (KIP-98,
KIP-360).

The host calls an input, then does what `take_effects` says, in order: a `Store` is settled by
`stored`, a `Mark` by `marked`, whatever became of them. It calls `tick` every now and then. One
`coordinator` per broker; which ids are its own is the host's business (`load`, `unload`).

Rules:
- one change of an id is on its way at a time; who comes meanwhile is told CONCURRENT_TRANSACTIONS,
  which every client asks again after (20 ms), but who adds partitions waits until what was decided
  is marked everywhere, which takes less. Those who wait are bounded, and by the ticket's deadline;
  one record adds all of them and completes what was decided: each is a round to the replicas;
- a change counts when it is stored; one that could not be stored changes nothing here;
- what is prepared is decided for good: markers are asked for again until each is written, by the
  next coordinator too;
- how long a transaction is open is told by the monotonic clock: the other may be set; who loads it
  begins with what is left by the time of day, and with its whole timeout at most;
- a producer of an older epoch is fenced; a transaction that outlasts its timeout, or whose id
  another producer takes, is aborted under the next epoch, so that its producer writes nothing more.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, TopicPartition
from josefine_broker.engine.transactions.ending import completed, ended, judge_end, taken_away
from josefine_broker.engine.transactions.states import (
    IDLE,
    PREPARED,
    TransactionEvent,
    TransactionState,
)
from josefine_broker.engine.transactions.transaction import (
    Joining,
    Pending,
    Transaction,
    check_holder,
    check_identity,
    check_producer,
    has,
    is_adding,
    is_first,
    is_new,
    is_of,
    keeper,
    next_producer,
    timeout_of,
)
from josefine_broker.engine.transactions.values import (
    EPOCH_LAST,
    NO_PRODUCER_ID,
    NOBODY,
    VERSION_1,
    Answer,
    Effect,
    Init,
    Mark,
    NewId,
    Now,
    Producer,
    Store,
    Ticket,
    TransactionAnswer,
    TransactionRecord,
    TransactionSettings,
    TransactionView,
)

RETRY_MS = 1_000
"""Between two attempts to store what nobody asks again for."""
WAITING_MAX = 1_000
"""Who may wait to add partitions to one transaction."""


class TransactionCoordinator:
    """Mutable: the transactions, and what is to be done."""

    __slots__ = ("_busy", "_effects", "_ids", "_transactions", "settings")

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self._transactions: dict[str, Transaction] = {}
        self._busy: dict[str, None] = {}
        """Those that are open or prepared: time may have something to do with them."""
        self._effects: list[Effect] = []
        self._ids = count(1)

    def __len__(self) -> int:
        return len(self._transactions)

    # Requests of producers. Each is answered by an effect, now or later.

    def init(
        self, transactional_id: str, request: Init, ticket: Ticket, now: Now, new_id: NewId
    ) -> None:
        """A producer takes the id, or takes it over."""
        timeout_ms = timeout_of(request, self.settings)
        if isinstance(timeout_ms, ErrorCode):
            self._refuse(ticket, timeout_ms)
            return
        found = self._transactions.get(transactional_id)
        if found is None:
            first_id = new_id()
            assert first_id is not None, "one is at hand"
            record = TransactionRecord(
                producer=Producer(first_id, ProducerEpoch(0)),
                timeout_ms=timeout_ms,
                state=TransactionState.EMPTY,
                updated_ms=now.wall_ms,
            )
            found = self._transactions[transactional_id] = Transaction(record)
            answer = TransactionAnswer(producer=record.producer)
            self._store(transactional_id, found, record, (ticket,), answer)
            return
        if found.pending is not None:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
        elif not is_of(found, request.claimed):
            self._refuse(ticket, ErrorCode.producer_fenced)
        elif found.record.state is TransactionState.ONGOING and request.keeps:
            self._keep(transactional_id, found, request, ticket, now, new_id)
        elif found.record.state is TransactionState.ONGOING:
            self._abort(transactional_id, found, now)
            self._refuse(ticket, ErrorCode.concurrent_transactions)
        elif found.record.state in PREPARED:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
        else:
            producer = next_producer(found, request.claimed, new_id)
            if producer is None:
                self._refuse(ticket, ErrorCode.producer_fenced)
                return
            current_id = found.record.producer.producer_id
            keeps_id = producer.producer_id == current_id
            record = found.record.moved(
                TransactionEvent.INIT,
                producer=producer,
                previous_id=found.record.previous_id if keeps_id else current_id,
                timeout_ms=timeout_ms,
                partitions=frozenset(),
                updated_ms=now.wall_ms,
                started_ms=-1,
            )
            answer = TransactionAnswer(producer=producer)
            self._store(transactional_id, found, record, (ticket,), answer)

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        ticket: Ticket,
        now: Now,
        version: int = VERSION_1,
    ) -> None:
        """The producer is about to write there; the first of them begins a transaction."""
        found = self._of(transactional_id, producer, ticket, waits=True)
        if found is None:
            return
        is_busy = found.pending is not None or found.record.state in PREPARED
        if is_busy and len(found.waiting) >= WAITING_MAX:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
            return
        found.waiting.append(Joining(producer, partitions, ticket, version))
        if not is_busy:
            self._join(transactional_id, found, found.record, now)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Of each whether it is in the producer's open transaction: none if so, else
        TRANSACTION_ABORTABLE (KIP-890). What is on its way to the log is waited for: an end is as
        good as decided."""
        found = self._transactions.get(transactional_id)
        code = check_identity(found, producer)
        if found is None or code is not ErrorCode.none:
            return dict.fromkeys(partitions, code)
        if found.record.state in PREPARED or not (found.pending is None or is_adding(found)):
            return dict.fromkeys(partitions, ErrorCode.concurrent_transactions)
        codes = {True: ErrorCode.none, False: ErrorCode.transaction_abortable}
        if found.pending is not None:  # what is being added is not there yet
            codes[False] = ErrorCode.concurrent_transactions
        return {each: codes[has(found.record, (each,))] for each in partitions}

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        ticket: Ticket,
        now: Now,
        *,
        is_commit: bool,
    ) -> None:
        """Answered when the decision is stored; the markers follow."""
        found = self._of(transactional_id, producer, ticket)
        if found is None:
            return
        record = found.record
        if record.is_kept:
            self._refuse(ticket, ErrorCode.invalid_txn_state)
        elif record.state is TransactionState.ONGOING:
            event = TransactionEvent.COMMIT if is_commit else TransactionEvent.ABORT
            after = record.moved(event, updated_ms=now.wall_ms)
            self._store(transactional_id, found, after, (ticket,), TransactionAnswer())
        else:
            self._refuse(ticket, _END_AGAIN.get((record.state, is_commit), _NOT_OPEN))

    def end_and_go_on(
        self,
        transactional_id: str,
        producer: Producer,
        ticket: Ticket,
        now: Now,
        new_id: NewId,
        *,
        is_commit: bool,
    ) -> None:
        """An end of version 2: the answer names the producer's next epoch, perhaps of another
        id."""
        found = self._transactions.get(transactional_id)
        if found is None or is_new(found):
            self._refuse(ticket, ErrorCode.invalid_producer_id_mapping)
            return
        if found.pending is not None:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
            return
        record = found.record
        verdict = judge_end(record, producer, is_commit=is_commit)
        if verdict is ErrorCode.none:
            self._effects.append(Answer(ticket, TransactionAnswer(producer=record.producer)))
            return
        if isinstance(verdict, ErrorCode):
            self._refuse(ticket, verdict)
            return
        next_id = new_id() if record.successor.epoch >= EPOCH_LAST else NO_PRODUCER_ID
        if next_id is None:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
            return
        after = ended(record, verdict, next_id, now.wall_ms)
        self._store(
            transactional_id, found, after, (ticket,), TransactionAnswer(producer=after.successor)
        )

    # Admins.

    def views(self) -> list[TransactionView]:
        """Every id that is stored, by name."""
        return [view for each in sorted(self._transactions) if (view := self.view(each))]

    def view(self, transactional_id: str) -> TransactionView | None:
        found = self._transactions.get(transactional_id)
        if found is None or is_new(found):
            return None
        is_prepared = found.record.state in PREPARED
        unended = found.unmarked if is_prepared else found.record.partitions
        return TransactionView(transactional_id, found.record, unended)

    # What became of the effects.

    def stored(self, transactional_id: str, write_id: int, error: ErrorCode, now: Now) -> None:
        """What became of a `Store`."""
        found = self._transactions.get(transactional_id)
        if found is None or found.pending is None or found.pending.write_id != write_id:
            return  # the leadership went meanwhile
        pending, was_new = found.pending, is_new(found)
        found.pending = None
        if error is not ErrorCode.none:
            found.retry_ms = now.monotonic_ms + RETRY_MS
            if was_new:
                self._forget(transactional_id)
            for ticket in pending.tickets:
                self._refuse(ticket, error)
            self._resume(transactional_id, found, now)
            return
        if pending.record is None:
            self._forget(transactional_id)
            return
        if pending.record.producer != pending.before:
            found.last = pending.before
        if found.record.state is not TransactionState.ONGOING:
            found.due_ms = now.monotonic_ms + pending.record.timeout_ms
        found.record = pending.record
        found.retry_ms = 0
        self._effects += [Answer(ticket, pending.answer) for ticket in pending.tickets]
        if found.record.state in PREPARED:
            found.unmarked = found.record.partitions
            found.asked.clear()
            self._mark(transactional_id, found, now)
        if found.record.state in IDLE:
            self._busy.pop(transactional_id, None)
        else:
            self._busy[transactional_id] = None
        self._resume(transactional_id, found, now)

    def marked(
        self,
        transactional_id: str,
        mark_id: int,
        partitions: Collection[TopicPartition],
        now: Now,
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
            self._complete(transactional_id, found, now)

    # The log.

    def load(self, stored: Mapping[str, TransactionRecord], now: Now) -> None:
        """These ids are coordinated here now; what was decided is completed."""
        for transactional_id, record in stored.items():
            due_ms = now.monotonic_ms + record.left_ms(now.wall_ms)
            found = self._transactions[transactional_id] = Transaction(record, due_ms)
            if record.state not in IDLE:
                self._busy[transactional_id] = None
            if record.state in PREPARED:
                self._mark(transactional_id, found, now)

    def unload(self, is_gone: Callable[[str], bool]) -> None:
        """Other brokers coordinate these ids now: who waits is sent to look for them."""
        for transactional_id in [each for each in self._transactions if is_gone(each)]:
            pending = self._transactions[transactional_id].pending
            for ticket in () if pending is None else pending.tickets:
                self._refuse(ticket, ErrorCode.not_coordinator)
            self._forget(transactional_id, ErrorCode.not_coordinator)

    # Time, and what is to be done.

    def tick(self, now: Now) -> None:
        """Abort what is overdue; ask again for markers and stores that failed."""
        for transactional_id in tuple(self._busy):
            found = self._transactions[transactional_id]
            if found.pending is not None or now.monotonic_ms < found.retry_ms:
                continue
            if found.is_overdue(now):
                self._abort(transactional_id, found, now)
            elif found.record.state in PREPARED:
                self._mark(transactional_id, found, now)

    def expire(self, now: Now) -> Iterator[None]:
        """In steps: forget the ids that nobody used for long."""
        for transactional_id in tuple(self._transactions):
            found = self._transactions.get(transactional_id)
            if found is not None and self._is_old(found, now):
                found.record.moved(TransactionEvent.EXPIRE)
                self._store(transactional_id, found, None, (), TransactionAnswer())
            yield None

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # Within.

    def _is_old(self, found: Transaction, now: Now) -> bool:
        record = found.record
        is_idle = record.state in IDLE and found.pending is None
        return is_idle and now.wall_ms - record.updated_ms > self.settings.id_expiration_ms

    def _keep(
        self,
        transactional_id: str,
        found: Transaction,
        request: Init,
        ticket: Ticket,
        now: Now,
        new_id: NewId,
    ) -> None:
        """What is open stays, and who asks is to end it: its timeout goes on counting."""
        record = found.record
        producer = keeper(record, request.claimed, new_id)
        if producer is None:
            self._refuse(ticket, ErrorCode.producer_fenced)
            return
        after = record.moved(
            TransactionEvent.KEEP,
            next_id=producer.producer_id,
            next_epoch=producer.epoch,
            updated_ms=now.wall_ms,
        )
        answer = TransactionAnswer(producer=producer, ongoing=record.producer)
        self._store(transactional_id, found, after, (ticket,), answer)

    def _abort(self, transactional_id: str, found: Transaction, now: Now) -> None:
        """For nobody who asked: its producer is fenced by it."""
        after = taken_away(found.record, now.wall_ms)
        self._store(transactional_id, found, after, (), TransactionAnswer())

    def _mark(self, transactional_id: str, found: Transaction, now: Now) -> None:
        """Ask for the markers that nobody is asked for now."""
        record = found.record
        missing = found.unmarked - found.asked.keys()
        if missing:
            mark_id = next(self._ids)
            found.asked.update(dict.fromkeys(missing, mark_id))
            is_commit = record.state is TransactionState.PREPARE_COMMIT
            self._effects.append(
                Mark(transactional_id, mark_id, record.producer, is_commit, missing, record.version)
            )
        self._complete(transactional_id, found, now)

    def _complete(self, transactional_id: str, found: Transaction, now: Now) -> None:
        """Every marker is written: so it is over."""
        if found.unmarked or found.pending is not None or found.record.state not in PREPARED:
            return
        after = completed(found.record, now.wall_ms)
        if not self._join(transactional_id, found, after, now):
            self._store(transactional_id, found, after, (), TransactionAnswer())

    def _resume(self, transactional_id: str, found: Transaction, now: Now) -> None:
        """Nothing is on its way, perhaps: who waits is served, or waits on."""
        if found.pending is None and found.record.state not in PREPARED:
            self._join(transactional_id, found, found.record, now)

    def _join(
        self, transactional_id: str, found: Transaction, record: TransactionRecord, now: Now
    ) -> bool:
        """All who wait are added to `record` by one change; whether there is one. Where what was
        decided is completed by it, the log is not told of that alone: it would be waited for."""
        waiting, found.waiting = found.waiting, []
        is_open = record.state is TransactionState.ONGOING
        joined = record.partitions if is_open else frozenset()
        version, tickets = record.version, []
        for each in waiting:
            code = check_holder(record, each.producer)
            if code is ErrorCode.none and record.is_kept:
                code = ErrorCode.invalid_txn_state
            if code is not ErrorCode.none:
                self._refuse(each.ticket, code)
            elif not each.partitions or has(record, each.partitions):
                self._effects.append(Answer(each.ticket, TransactionAnswer()))
            else:
                joined |= frozenset(each.partitions)
                version = each.version
                tickets.append(each.ticket)
        if not tickets:
            return False
        after = record.moved(
            TransactionEvent.ADD,
            partitions=joined,
            version=version,
            updated_ms=now.wall_ms,
            started_ms=record.started_ms if is_open else now.wall_ms,
        )
        self._store(transactional_id, found, after, tickets, TransactionAnswer())
        return True

    def _store(
        self,
        transactional_id: str,
        found: Transaction,
        record: TransactionRecord | None,
        tickets: Iterable[Ticket],
        answer: TransactionAnswer,
    ) -> None:
        assert found.pending is None, "a change is on its way"
        write_id = next(self._ids)
        before = NOBODY if is_first(record, found) else found.record.producer
        found.pending = Pending(write_id, record, before, tuple(tickets), answer)
        self._effects.append(Store(transactional_id, write_id, record))

    def _of(
        self, transactional_id: str, producer: Producer, ticket: Ticket, *, waits: bool = False
    ) -> Transaction | None:
        """The transaction of this producer; None: it has none, and the ticket is told why. `waits`:
        though something of it is on its way."""
        found = self._transactions.get(transactional_id)
        code = (check_identity if waits else check_producer)(found, producer)
        if code is ErrorCode.none:
            return found
        self._refuse(ticket, code)
        return None

    def _refuse(self, ticket: Ticket, code: ErrorCode) -> None:
        self._effects.append(Answer(ticket, TransactionAnswer(code)))

    def _forget(
        self, transactional_id: str, code: ErrorCode = ErrorCode.invalid_producer_id_mapping
    ) -> None:
        """Who waits for it is told `code`."""
        for each in self._transactions.pop(transactional_id).waiting:
            self._refuse(each.ticket, code)
        self._busy.pop(transactional_id, None)


_NOT_OPEN = ErrorCode.invalid_txn_state
_END_AGAIN: dict[tuple[TransactionState, bool], ErrorCode] = {
    (TransactionState.PREPARE_COMMIT, True): ErrorCode.concurrent_transactions,
    (TransactionState.PREPARE_ABORT, False): ErrorCode.concurrent_transactions,
    (TransactionState.COMPLETE_COMMIT, True): ErrorCode.none,
    (TransactionState.COMPLETE_ABORT, False): ErrorCode.none,
}
"""What an end is told when none is open: asked again for the same end, it is under way, or done."""
