"""The transaction coordinator of a broker: which producer may write, and how each transaction ends
(KIP-98, KIP-360).

The host calls an input, then executes `take_effects` in order: each `Store` is answered by
`stored`, each `Mark` by `marked`, whatever the result. It calls `tick` at intervals. There is one
coordinator per broker; the host decides which ids it has (`load`, `unload`).

Rules: this module has loading, timeouts and the admin view; `requests.py` has the requests of
producers, `progress.py` what follows from them. Decisions of the previous coordinator are
completed. The monotonic clock measures how long a transaction is open, because the wall clock may
be set; a coordinator that loads it starts with the remaining time by the wall clock, but at most
its whole timeout. A transaction that exceeds its timeout is aborted under the next epoch, so that
its producer cannot write any more.
"""

from collections.abc import Callable, Iterator, Mapping

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.transactions.requests import Requests
from josefine_broker.engine.transactions.states import IDLE, PREPARED, TransactionEvent
from josefine_broker.engine.transactions.transaction import Transaction, is_new
from josefine_broker.engine.transactions.values import (
    Now,
    TransactionAnswer,
    TransactionRecord,
    TransactionView,
)


class TransactionCoordinator(Requests):
    """The complete coordinator. Adds no state."""

    __slots__ = ()

    # Admin clients.

    def views(self) -> list[TransactionView]:
        """Every stored id, by name."""
        return [view for each in sorted(self._transactions) if (view := self.view(each))]

    def view(self, transactional_id: str) -> TransactionView | None:
        found = self._transactions.get(transactional_id)
        if found is None or is_new(found):
            return None
        is_prepared = found.record.state in PREPARED
        unended = found.unmarked if is_prepared else found.record.partitions
        return TransactionView(transactional_id, found.record, unended)

    # Loading.

    def load(self, stored: Mapping[str, TransactionRecord], now: Now) -> None:
        """Coordinate these ids from now on; decided transactions are completed."""
        for transactional_id, record in stored.items():
            due_ms = now.monotonic_ms + record.left_ms(now.wall_ms)
            found = Transaction(transactional_id, record, due_ms)
            self._transactions[transactional_id] = found
            if record.state not in IDLE:
                self._busy[transactional_id] = None
            if record.state in PREPARED:
                self._mark(found, now)

    def unload(self, is_gone: Callable[[str], bool]) -> None:
        """Stop coordinating these ids: waiting requests get NOT_COORDINATOR."""
        for transactional_id in [each for each in self._transactions if is_gone(each)]:
            pending = self._transactions[transactional_id].pending
            for ticket in () if pending is None else pending.tickets:
                self._refuse(ticket, ErrorCode.not_coordinator)
            self._forget(transactional_id, ErrorCode.not_coordinator)

    # Timers.

    def tick(self, now: Now) -> None:
        """Abort overdue transactions; repeat failed markers and stores; refuse requests that have
        waited too long to take an id."""
        for transactional_id in tuple(self._busy):
            found = self._transactions[transactional_id]
            self._turn_away(found, until_ms=now.monotonic_ms)
            if found.pending is not None or now.monotonic_ms < found.retry_ms:
                continue
            if found.is_overdue(now):
                self._abort(found, now)
            elif found.record.state in PREPARED:
                self._mark(found, now)

    def expire(self, now: Now) -> Iterator[None]:
        """In steps: forget ids that have been unused for long."""
        for transactional_id in tuple(self._transactions):
            found = self._transactions.get(transactional_id)
            if found is not None and self._is_old(found, now):
                found.record.moved(TransactionEvent.EXPIRE)
                self._store(found, None, (), TransactionAnswer())
            yield None

    def _is_old(self, found: Transaction, now: Now) -> bool:
        record = found.record
        is_idle = record.state in IDLE and found.pending is None
        return is_idle and now.wall_ms - record.updated_ms > self.settings.id_expiration_ms
