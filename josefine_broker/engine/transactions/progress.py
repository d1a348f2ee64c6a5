"""The execution of a decision about a transactional id: its record is stored, markers are written
to its partitions, and then the record that completes it is stored.

Rules: one change of an id is in flight at a time. A change takes effect when it is stored; one that
cannot be stored changes nothing here. A prepared transaction is decided for good: its markers are
requested again until each is written. Requests that add partitions in the meantime wait: one record
adds all of them and completes the previous transaction, because each record costs a round trip to
the replicas. That record may follow a completion that is still in flight.
"""

from collections.abc import Collection, Iterable
from itertools import count

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.transactions.ending import completed, taken_away
from josefine_broker.engine.transactions.states import (
    IDLE,
    PREPARED,
    TransactionEvent,
    TransactionState,
)
from josefine_broker.engine.transactions.transaction import (
    Pending,
    Taking,
    Transaction,
    check_holder,
    has,
    is_first,
    is_new,
)
from josefine_broker.engine.transactions.values import (
    NOBODY,
    Answer,
    Effect,
    Mark,
    Now,
    Store,
    Ticket,
    TransactionAnswer,
    TransactionRecord,
    TransactionSettings,
)

NEVER_MS = 2**62
RETRY_MS = 1_000
"""Delay before a failed write without a client is repeated."""


class Progress:
    """The transactions and their pending effects. Mutable."""

    __slots__ = ("_busy", "_effects", "_ids", "_transactions", "settings")

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self._transactions: dict[str, Transaction] = {}
        self._busy: dict[str, None] = {}
        """Open or prepared ones, which `tick` has to look at."""
        self._effects: list[Effect] = []
        self._ids = count(1)

    def __len__(self) -> int:
        return len(self._transactions)

    def take_effects(self) -> list[Effect]:
        """The effects to execute, in order."""
        effects, self._effects = self._effects, []
        return effects

    # The results of effects.

    def stored(self, transactional_id: str, write_id: int, error: ErrorCode, now: Now) -> None:
        """The result of a `Store`."""
        found = self._transactions.get(transactional_id)
        if found is None or found.pending is None or found.pending.write_id != write_id:
            return  # the leadership was lost in between
        pending, was_new = found.pending, is_new(found)
        found.pending = None
        if error is not ErrorCode.none:
            found.retry_ms = now.monotonic_ms + RETRY_MS
            # Not even the first record of the id is in the log: there is no such id.
            if was_new:
                self._forget(transactional_id)
            for ticket in pending.tickets:
                self._refuse(ticket, error)
            self._turn_away(found)
            self._resume(found, now)
            return
        # The id had expired, and the log has its deletion now.
        if pending.record is None:
            self._forget(transactional_id)
            return
        # KIP-360: if the answer gets lost, the previous producer repeats its request with what it
        # knew. After a takeover that would be the wrong process, which must be fenced.
        if pending.record.producer != pending.before:
            found.last = NOBODY if pending.is_takeover else pending.before
        # The deadline counts from the first record of the transaction. Later records, which add
        # partitions, must not extend it.
        if found.record.state is not TransactionState.ONGOING:
            found.due_ms = now.monotonic_ms + pending.record.timeout_ms
        found.record = pending.record
        found.retry_ms = 0
        self._effects += [Answer(ticket, pending.answer) for ticket in pending.tickets]
        if found.record.state in PREPARED:
            # From here on the transaction cannot end in another way, whatever happens to this
            # broker: the record in the log decides (KIP-98).
            found.unmarked = found.record.partitions
            found.asked.clear()
            self._mark(found, now)
        if found.record.state in IDLE:
            self._busy.pop(transactional_id, None)
        else:
            self._busy[transactional_id] = None
        self._resume(found, now)

    def marked(
        self,
        transactional_id: str,
        mark_id: int,
        partitions: Collection[TopicPartition],
        now: Now,
        *,
        is_written: bool,
    ) -> None:
        """The result of (a part of) a `Mark`; the rest is requested again by a later `tick`.

        `partitions` may be a part of those in the `Mark`, because each of their leaders answers by
        itself. Not written: they stay in `unmarked` and are requested again.
        """
        found = self._transactions.get(transactional_id)
        if found is None:
            return
        # An answer to an earlier `Mark` is no proof: its partitions may have been requested again.
        ours = {each for each in partitions if found.asked.get(each) == mark_id}
        for each in ours:
            del found.asked[each]
        if is_written and ours:
            found.unmarked -= ours
            self._complete(found, now)

    # What follows from a result.

    def _abort(self, found: Transaction, now: Now) -> None:
        """Abort without a request; this fences the producer.

        For an overdue transaction, and for one whose id another producer takes. The markers have an
        epoch that the producer never had, so a batch of it that arrives later is refused.
        """
        after = taken_away(found.record, now.wall_ms)
        self._store(found, after, (), TransactionAnswer())

    def _mark(self, found: Transaction, now: Now) -> None:
        """Request the missing markers that are not requested at the moment."""
        record = found.record
        missing = found.unmarked - found.asked.keys()
        if missing:
            # Only what is not requested yet: a second request in parallel could write a marker
            # after the transaction is completed, and end the next one.
            mark_id = next(self._ids)
            found.asked.update(dict.fromkeys(missing, mark_id))
            is_commit = record.state is TransactionState.PREPARE_COMMIT
            asked = mark_id, record.producer, is_commit, missing, record.version
            self._effects.append(Mark(found.transactional_id, *asked))
        self._complete(found, now)

    def _complete(self, found: Transaction, now: Now) -> None:
        """Complete the transaction once every marker is written."""
        if found.unmarked or found.pending is not None or found.record.state not in PREPARED:
            return
        after = completed(found.record, now.wall_ms)
        # A producer that takes the id over needs the completed state, not a transaction of the old
        # one.
        if found.taking or not self._join(found, after, now):
            self._store(found, after, (), TransactionAnswer())

    def _go_ahead(self, found: Transaction, now: Now) -> None:
        """Add partitions while the completing record is in flight. The new record follows it in the
        log and contains the completion as well, so the result of the first is irrelevant."""
        completing, found.pending = found.pending, None
        assert completing is not None
        assert completing.record is not None
        if not self._join(found, completing.record, now):
            found.pending = completing

    def _resume(self, found: Transaction, now: Now) -> None:
        """Serve the waiting requests, if no change is in flight now."""
        while found.is_free and found.taking:
            self._take(found, found.taking.pop(0), now)
        if found.is_free:
            self._join(found, found.record, now)

    def _take(self, found: Transaction, taking: Taking, now: Now) -> None:
        """Give the id to a producer, see `requests.py`."""
        raise NotImplementedError

    def _turn_away(
        self,
        found: Transaction,
        code: ErrorCode = ErrorCode.concurrent_transactions,
        until_ms: int = NEVER_MS,
    ) -> None:
        """Refuse requests that wait to take the id and whose wait ends before `until_ms`."""
        for each in found.taking:
            if each.until_ms < until_ms:
                self._refuse(each.ticket, code)
        found.taking = [each for each in found.taking if each.until_ms >= until_ms]

    def _join(self, found: Transaction, record: TransactionRecord, now: Now) -> bool:
        """Add all waiting partitions to `record` by one change; returns whether there is one. If
        `record` completes a transaction, it is stored with that change instead of before it, which
        saves a round trip to the replicas."""
        waiting, found.waiting = found.waiting, []
        is_open = record.state is TransactionState.ONGOING
        joined = record.partitions if is_open else frozenset()
        version, tickets = record.version, []
        # Only partitions that are new in the transaction need a record; the others, and fenced
        # producers, are answered at once.
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
        self._store(found, after, tickets, TransactionAnswer())
        return True

    def _store(
        self,
        found: Transaction,
        record: TransactionRecord | None,
        tickets: Iterable[Ticket],
        answer: TransactionAnswer,
        *,
        is_takeover: bool = False,
    ) -> None:
        """Put a change in flight. It takes effect here when `stored` reports that it is in the
        log."""
        assert found.pending is None, "a change is in flight"
        write_id = next(self._ids)
        before = NOBODY if is_first(record, found) else found.record.producer
        found.pending = Pending(write_id, record, before, tuple(tickets), answer, is_takeover)
        self._effects.append(Store(found.transactional_id, write_id, record))

    def _refuse(self, ticket: Ticket, code: ErrorCode) -> None:
        """An answer with an error; nothing is stored for it."""
        self._effects.append(Answer(ticket, TransactionAnswer(code)))

    def _forget(
        self, transactional_id: str, code: ErrorCode = ErrorCode.invalid_producer_id_mapping
    ) -> None:
        """Drop the id. Requests that wait in it get `code`; those that wait to take the id may
        retry, where that can help."""
        found = self._transactions.pop(transactional_id)
        for each in found.waiting:
            self._refuse(each.ticket, code)
        # Otherwise the partition moved to another coordinator, and the id is known there.
        is_ours = code is ErrorCode.invalid_producer_id_mapping
        self._turn_away(found, ErrorCode.concurrent_transactions if is_ours else code)
        self._busy.pop(transactional_id, None)
