"""The transactions that a broker coordinates: who may write in them, and how each ends (KIP-98,
KIP-360).

The host calls an input, then does what `take_effects` says, in order: a `Store` is settled by
`stored`, a `Mark` by `marked`, whatever became of them. It calls `tick` every now and then. One
`coordinator` per broker; which ids are its own is the host's business (`load`, `unload`).

Rules: here are its ids as they come and go, time, and what admins see; what producers ask is in
`requests.py`, what follows from that in `progress.py`. What was decided by the coordinator before
is completed. How long a transaction is open is told by the monotonic clock: the other may be set;
who loads it begins with what is left by the time of day, and with its whole timeout at most. One
that outlasts its timeout is aborted under the next epoch, so that its producer writes nothing more.
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
    """The whole of it. Adds no state."""

    __slots__ = ()

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

    # The log.

    def load(self, stored: Mapping[str, TransactionRecord], now: Now) -> None:
        """These ids are coordinated here now; what was decided is completed."""
        for transactional_id, record in stored.items():
            due_ms = now.monotonic_ms + record.left_ms(now.wall_ms)
            found = Transaction(transactional_id, record, due_ms)
            self._transactions[transactional_id] = found
            if record.state not in IDLE:
                self._busy[transactional_id] = None
            if record.state in PREPARED:
                self._mark(found, now)

    def unload(self, is_gone: Callable[[str], bool]) -> None:
        """Other brokers coordinate these ids now: who waits is sent to look for them."""
        for transactional_id in [each for each in self._transactions if is_gone(each)]:
            pending = self._transactions[transactional_id].pending
            for ticket in () if pending is None else pending.tickets:
                self._refuse(ticket, ErrorCode.not_coordinator)
            self._forget(transactional_id, ErrorCode.not_coordinator)

    # Time.

    def tick(self, now: Now) -> None:
        """Abort what is overdue; ask again for markers and stores that failed; let nobody wait for
        longer than he may."""
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
        """In steps: forget the ids that nobody used for long."""
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
