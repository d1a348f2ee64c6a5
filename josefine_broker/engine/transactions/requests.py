"""The requests of producers to the transaction coordinator: InitProducerId, AddPartitionsToTxn and
EndTxn (KIP-98, KIP-360, KIP-890, KIP-939).

Rules: each request is answered by an effect, now or later. While a change of the id is in flight
the answer is CONCURRENT_TRANSACTIONS, after which every client retries (20 to 100 ms). Two requests
wait instead, mostly for less than that: adding partitions, and taking the id. Their number is
limited; the first kind waits until its ticket's deadline, the second for `TAKING_MS`. A producer of
an older epoch is fenced, and so is one whose id another one takes: its open transaction is aborted.
"""

from collections.abc import Collection

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, TopicPartition
from josefine_broker.engine.transactions.ending import ended, judge_end
from josefine_broker.engine.transactions.progress import Progress
from josefine_broker.engine.transactions.states import (
    PREPARED,
    TransactionEvent,
    TransactionState,
)
from josefine_broker.engine.transactions.transaction import (
    Joining,
    Taking,
    Transaction,
    check_identity,
    check_producer,
    has,
    is_adding,
    is_completing,
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
    Init,
    NewId,
    Now,
    Producer,
    Ticket,
    TransactionAnswer,
    TransactionRecord,
)

WAITING_MAX = 1_000
"""Requests that may wait to add partitions to one transaction."""
TAKING_MAX = 10
"""Requests that may wait to take one id: each fences the previous one."""
TAKING_MS = 2_000
"""How long these wait: where a marker cannot be written, the producer has to retry anyway."""


class Requests(Progress):
    """The coordinator's requests from producers. Adds no state."""

    __slots__ = ()

    def init(
        self, transactional_id: str, request: Init, ticket: Ticket, now: Now, new_id: NewId
    ) -> None:
        """InitProducerId: a producer gets the id, or takes it over.

        The answer has the producer id and epoch. Refused are a timeout beyond the limits
        (INVALID_TRANSACTION_TIMEOUT), a two-phase commit that is not enabled
        (TRANSACTIONAL_ID_AUTHORIZATION_FAILED) and the claim of an identity that is out of date
        (PRODUCER_FENCED).
        """
        timeout_ms = timeout_of(request, self.settings)
        if isinstance(timeout_ms, ErrorCode):
            self._refuse(ticket, timeout_ms)
            return
        found = self._transactions.get(transactional_id)
        if found is not None:
            taking = Taking(request, ticket, new_id, now.monotonic_ms + TAKING_MS)
            # New: the first producer of this id has no answer yet. The client retries after either.
            if is_new(found) or len(found.taking) >= TAKING_MAX:
                self._refuse(ticket, ErrorCode.concurrent_transactions)
            elif found.is_free:
                self._take(found, taking, now)
            else:
                found.taking.append(taking)
        else:
            # Stored before it is answered: after a failover the next coordinator must know the
            # producer, or would give the transactional id to a second one with epoch 0.
            first_id = new_id()
            assert first_id is not None, "the host has an id available"
            record = TransactionRecord(
                producer=Producer(first_id, ProducerEpoch(0)),
                timeout_ms=timeout_ms,
                state=TransactionState.EMPTY,
                updated_ms=now.wall_ms,
            )
            found = self._transactions[transactional_id] = Transaction(transactional_id, record)
            answer = TransactionAnswer(producer=record.producer)
            self._store(found, record, (ticket,), answer)

    def _take(self, found: Transaction, taking: Taking, now: Now) -> None:
        """Give the id to a producer; no change is in flight. An open transaction is aborted first,
        or kept."""
        request, ticket, _, _ = taking
        timeout_ms = timeout_of(request, self.settings)
        assert isinstance(timeout_ms, int), "checked by `init`"
        if not is_of(found, request.claimed):
            self._refuse(ticket, ErrorCode.producer_fenced)
        # KIP-939: an external coordinator has decided how it ends, and its client will ask for that
        # end.
        elif found.record.state is TransactionState.ONGOING and request.keeps:
            self._keep(found, taking, now)
        elif found.record.state is TransactionState.ONGOING:
            # Before others that wait: they came later, and the last to take the id keeps it.
            found.taking.insert(0, taking)
            self._abort(found, now)
        else:
            producer = next_producer(found, request.claimed, taking.new_id)
            if isinstance(producer, ErrorCode):
                self._refuse(ticket, producer)
                return
            current_id = found.record.producer.producer_id
            keeps_id = producer.producer_id == current_id
            is_takeover = request.claimed == NOBODY
            # Under its previous id, a producer that was taken over could retry and get the answer
            # that was meant for the new one.
            rotated_id = NO_PRODUCER_ID if is_takeover else current_id
            record = found.record.moved(
                TransactionEvent.INIT,
                producer=producer,
                previous_id=found.record.previous_id if keeps_id else rotated_id,
                timeout_ms=timeout_ms,
                partitions=frozenset(),
                updated_ms=now.wall_ms,
                started_ms=-1,
            )
            answer = TransactionAnswer(producer=producer)
            self._store(found, record, (ticket,), answer, is_takeover=is_takeover)

    def _keep(self, found: Transaction, taking: Taking, now: Now) -> None:
        """Keep the open transaction for the new producer to end; its timeout continues.

        No marker is written: only the identity that may end the transaction changes. The writer is
        fenced by that, since a kept transaction takes no more writes.
        """
        record = found.record
        producer = keeper(record, taking.request.claimed, taking.new_id)
        if isinstance(producer, ErrorCode):
            self._refuse(taking.ticket, producer)
            return
        after = record.moved(
            TransactionEvent.KEEP,
            next_id=producer.producer_id,
            next_epoch=producer.epoch,
            updated_ms=now.wall_ms,
        )
        answer = TransactionAnswer(producer=producer, ongoing=record.producer)
        self._store(found, after, (taking.ticket,), answer)

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        ticket: Ticket,
        now: Now,
        version: int = VERSION_1,
    ) -> None:
        """AddPartitionsToTxn, before the producer writes there; the first starts a transaction.

        Answered when the record with the partitions is stored (KIP-98): the coordinator writes
        markers only where it knows of writes. A batch in another partition would keep its
        transaction open there, and hold back read_committed consumers.
        """
        found = self._of(transactional_id, producer, ticket, waits=True)
        if found is None:
            return
        if not found.is_free and len(found.waiting) >= WAITING_MAX:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
            return
        found.waiting.append(Joining(producer, partitions, ticket, version))
        # The next transaction need not wait for the record that completes the last one.
        if is_completing(found) and not found.taking:
            self._go_ahead(found, now)
        elif found.is_free:
            self._join(found, found.record, now)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is in the producer's open transaction: no error, or
        TRANSACTION_ABORTABLE (KIP-890). While a change is in flight the producer has to retry,
        because an end in flight is as good as decided."""
        found = self._transactions.get(transactional_id)
        code = check_identity(found, producer)
        if found is None or code is not ErrorCode.none:
            return dict.fromkeys(partitions, code)
        if found.record.state in PREPARED or not (found.pending is None or is_adding(found)):
            return dict.fromkeys(partitions, ErrorCode.concurrent_transactions)
        codes = {True: ErrorCode.none, False: ErrorCode.transaction_abortable}
        if found.pending is not None:  # partitions that are being added are not in it yet
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
        """EndTxn, answered when the decision is stored; the markers follow.

        Refused are an end without an open transaction (INVALID_TXN_STATE), of a kept one, and an
        end while a change is in flight (CONCURRENT_TRANSACTIONS). A retry of an end that is
        completed succeeds.
        """
        found = self._of(transactional_id, producer, ticket)
        if found is None:
            return
        record = found.record
        if record.is_kept:
            self._refuse(ticket, ErrorCode.invalid_txn_state)
        elif record.state is TransactionState.ONGOING:
            event = TransactionEvent.COMMIT if is_commit else TransactionEvent.ABORT
            # Its markers keep the epoch, even if partitions were added by version 2 requests.
            after = record.moved(event, version=VERSION_1, updated_ms=now.wall_ms)
            self._store(found, after, (ticket,), TransactionAnswer())
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
        """EndTxn of version 2: the answer has the producer's next epoch, possibly with another
        producer id.

        `new_id` is asked only when the epochs of the current producer id are used up. With no id at
        hand the client gets CONCURRENT_TRANSACTIONS and retries, while the host fetches more.
        """
        found = self._transactions.get(transactional_id)
        if found is None or is_new(found):
            self._refuse(ticket, ErrorCode.invalid_producer_id_mapping)
            return
        if found.pending is not None:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
            return
        record = found.record
        verdict = judge_end(record, producer, is_commit=is_commit)
        # A retry whose first request succeeded: the answer has the producer of that time again,
        # because no change of the id was accepted since.
        if verdict is ErrorCode.none:
            self._effects.append(Answer(ticket, TransactionAnswer(producer=record.producer)))
            return
        if isinstance(verdict, ErrorCode):
            self._refuse(ticket, verdict)
            return
        # The new id is stored with the decision: after a failover the next coordinator gives a
        # retry the same successor.
        next_id = new_id() if record.successor.epoch >= EPOCH_LAST else NO_PRODUCER_ID
        if next_id is None:
            self._refuse(ticket, ErrorCode.concurrent_transactions)
            return
        after = ended(record, verdict, next_id, now.wall_ms)
        self._store(found, after, (ticket,), TransactionAnswer(producer=after.successor))

    def _of(
        self, transactional_id: str, producer: Producer, ticket: Ticket, *, waits: bool = False
    ) -> Transaction | None:
        """The transaction of this producer; None when it has none, and then the ticket is answered.
        `waits`: also while a change is in flight."""
        found = self._transactions.get(transactional_id)
        code = (check_identity if waits else check_producer)(found, producer)
        if code is ErrorCode.none:
            return found
        self._refuse(ticket, code)
        return None


_NOT_OPEN = ErrorCode.invalid_txn_state
_END_AGAIN: dict[tuple[TransactionState, bool], ErrorCode] = {
    (TransactionState.PREPARE_COMMIT, True): ErrorCode.concurrent_transactions,
    (TransactionState.PREPARE_ABORT, False): ErrorCode.concurrent_transactions,
    (TransactionState.COMPLETE_COMMIT, True): ErrorCode.none,
    (TransactionState.COMPLETE_ABORT, False): ErrorCode.none,
}
"""The answer to an end without an open transaction: a retry of the same end is in progress or
done."""
