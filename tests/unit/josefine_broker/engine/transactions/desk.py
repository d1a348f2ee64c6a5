"""A transaction coordinator whose stores and markers a test settles."""

from __future__ import annotations

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition
from josefine_broker.engine.transactions.coordinator import TransactionCoordinator
from josefine_broker.engine.transactions.progress import RETRY_MS
from josefine_broker.engine.transactions.states import PREPARED, TransactionState
from josefine_broker.engine.transactions.values import (
    EPOCH_LAST,
    NOBODY,
    VERSION_1,
    VERSION_2,
    Answer,
    Init,
    Mark,
    Now,
    Producer,
    Store,
    TransactionAnswer,
    TransactionRecord,
)

A, B, C = (TopicPartition(topic, 0) for topic in "abc")
TIMEOUT_MS = 60_000
OK = ErrorCode.none
CONCURRENT = ErrorCode.concurrent_transactions
FENCED = ErrorCode.producer_fenced
LAST = Producer(ProducerId(7), ProducerEpoch(EPOCH_LAST))
"""A producer whose id has no further epoch."""


class Desk:
    """A coordinator whose stores and marks the test settles; by itself they succeed."""

    def __init__(self) -> None:
        self.coordinator = TransactionCoordinator()
        self.now_ms = 1_000
        self.set_ms = 0
        """How far its wall clock was set since."""
        self.next_id = 100
        self.log: list[tuple[str, TransactionRecord | None]] = []
        self.stores: list[Store] = []
        self.marks: list[Mark] = []
        self.answers: dict[object, TransactionAnswer] = {}
        self.tickets = 0
        self.holds_stores = self.holds_marks = False
        self.ended: set[tuple[Producer, TopicPartition]] = set()
        """Where the markers are written of what was decided last."""

    @property
    def now(self) -> Now:
        return Now(self.now_ms + self.set_ms, self.now_ms)

    def settle(self) -> None:
        """Do what is wanted, until nothing is."""
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Answer):
                    assert effect.ticket not in self.answers, "answered twice"
                    self.answers[effect.ticket] = effect.answer
                elif isinstance(effect, Store):
                    self._check_completed(effect)
                    self.stores.append(effect)
                    if not self.holds_stores:
                        self.stored(effect)
                else:
                    self.marks.append(effect)
                    if not self.holds_marks:
                        self.marked(effect)

    def _check_completed(self, store: Store) -> None:
        """What is prepared is left when each marker is written, not before."""
        view = self.coordinator.view(store.transactional_id)
        if view is None or view.record.state not in PREPARED or store.record is None:
            return
        missing = {(view.record.producer, tp) for tp in view.record.partitions} - self.ended
        assert not missing, f"{store.record.state} without the markers of {missing}"

    def stored(self, store: Store, error: ErrorCode = OK, *, is_written: bool = True) -> None:
        self.stores.remove(store)
        record = store.record
        if record is not None and record.state in PREPARED:
            self.ended -= {(record.producer, tp) for tp in record.partitions}
        if is_written:
            self.log.append((store.transactional_id, record))
        self.coordinator.stored(store.transactional_id, store.write_id, error, self.now)

    def marked(self, mark: Mark, *, is_written: bool = True) -> None:
        if is_written:
            self.ended |= {(mark.producer, tp) for tp in mark.partitions}
        self.coordinator.marked(
            mark.transactional_id, mark.mark_id, mark.partitions, self.now, is_written=is_written
        )

    def _ticket(self) -> int:
        self.tickets += 1
        return self.tickets

    def new_id(self) -> ProducerId:
        self.next_id += 1
        return ProducerId(self.next_id)

    def init(
        self, claimed: Producer = NOBODY, *, timeout_ms: int = TIMEOUT_MS, id_: str = "t"
    ) -> TransactionAnswer:
        ticket = self._ticket()
        request = Init(timeout_ms=timeout_ms, claimed=claimed)
        self.coordinator.init(id_, request, ticket, self.now, self.new_id)
        return self._told(ticket)

    def load(self, producer: Producer, *tps: TopicPartition) -> None:
        """What another coordinator left: with a transaction in these partitions, if any."""
        record = TransactionRecord(
            producer=producer,
            timeout_ms=TIMEOUT_MS,
            state=TransactionState.ONGOING if tps else TransactionState.EMPTY,
            partitions=frozenset(tps),
            updated_ms=0,
            started_ms=self.now_ms if tps else -1,
            version=VERSION_2,
        )
        self.coordinator.load({"t": record}, self.now)

    def add(
        self, producer: Producer, *tps: TopicPartition, id_: str = "t", version: int = VERSION_1
    ) -> ErrorCode:
        ticket = self._ticket()
        self.coordinator.add(id_, producer, tps, ticket, self.now, version)
        return self._told(ticket).error

    def end(self, producer: Producer, *, is_commit: bool = True, id_: str = "t") -> ErrorCode:
        ticket = self._ticket()
        self.coordinator.end(id_, producer, ticket, self.now, is_commit=is_commit)
        return self._told(ticket).error

    def end_and_go_on(
        self, producer: Producer, *, is_commit: bool = True, id_: str = "t"
    ) -> TransactionAnswer:
        """An end of version 2."""
        ticket = self._ticket()
        self.coordinator.end_and_go_on(
            id_, producer, ticket, self.now, self.new_id, is_commit=is_commit
        )
        return self._told(ticket)

    def _told(self, ticket: int) -> TransactionAnswer:
        self.settle()
        return self.answers.get(ticket, TransactionAnswer(ErrorCode.unknown_server_error))

    def state(self, id_: str = "t") -> TransactionState:
        view = self.coordinator.view(id_)
        assert view is not None
        return view.record.state

    def fail_over(self) -> None:
        """Another broker reads the log."""
        self.coordinator.unload(lambda _: True)
        self.settle()
        self.stores.clear()
        stored: dict[str, TransactionRecord] = {}
        for id_, record in self.log:
            if record is None:
                stored.pop(id_, None)
            else:
                stored[id_] = record
        self.coordinator.load(stored, self.now)
        self.settle()

    def tick(self, ms: int = RETRY_MS) -> None:
        self.now_ms += ms
        self.coordinator.tick(self.now)
        self.settle()
