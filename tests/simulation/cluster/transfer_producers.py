"""A virtual transactional producer: finds its coordinator, takes its id, and makes transfers, a few
in a transaction, which it commits or aborts; it crashes, stands still, dies for good, or is
followed by its next process while it lives on.

It speaks version 2 of the protocol where the cluster does, or the first: then it adds partitions
itself, and keeps its epoch from one transaction to the next (KIP-890).

It writes a batch again until it is told what became of it, as clients do for the whole of their
delivery timeout, and ends a transaction only then; who is fenced ends. Now and then what it sent
comes once more, long after: the end of a transaction, or a batch that it had given up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.metadata.image import TRANSACTION_VERSION
from josefine_broker.engine.transactions.values import NOBODY, Producer
from josefine_broker.wire import apis
from josefine_broker.wire.entities import add_partitions_to_txn, end_txn, init_producer_id
from josefine_broker.wire.produce import ProduceResponse
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.producing import NOT_FOUND, PRODUCE, RETRIED
from tests.simulation.cluster.transfer_facts import TOPICS
from tests.simulation.cluster.transfer_late import (
    END_1,
    END_2,
    PRODUCE_1,
    TIMEOUT_MS,
    SpeakingProducer,
)

if TYPE_CHECKING:
    from tests.simulation.cluster.transfer_watch import TransferWatch

__all__ = ["TransferProducer"]

INIT, ADD = (apis.INIT_PRODUCER_ID, 5), (apis.ADD_PARTITIONS_TO_TXN, 3)
SPEAKS_2 = 0.7
"""Of the processes that may."""
TRANSACTION_MS = 1_500
INIT_TIMEOUT_MS = 2_500
PAUSE_MS = 60
NOT_SERVED_MS = 500
MISBEHAVES = 0.03
"""At each step."""
ABORTS = 0.25
KEEPS_ID = 0.3
"""Of those that aborted: they ask for their next epoch (KIP-360)."""
FOR_GOOD = 0.2
"""Of those that crash."""
BEHIND_MS = 200
"""By then most ends are completed."""
COMES_LATE = 0.2
"""Of the transactions that were ended: something of them is on its way still."""
TRANSFERS_MAX = 3
MOVED = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
AGAIN = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.operation_not_attempted,
    }
)
"""The last two of a coordinator that has not applied yet that a topic was made."""
FENCED = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""The last of one whose id nobody used for long."""


class TransferProducer(SpeakingProducer):
    """One process at a time."""

    two_phase = False
    """Whether somebody outside decides: `participants.py`."""

    def __init__(self, watch: TransferWatch, node: int, rng: Random, transactional_id: str) -> None:
        super().__init__(watch, node, rng, transactional_id)
        self.is_gone = False
        """It died, or its next process fenced it: it does not come back."""
        self._joining: list[tuple[str, ...]] = []
        """Topics that are still to be added to this transaction, with one request each."""
        self._legs: list[tuple[str, bytes]] = []
        """What is still to be written in this transaction."""

    def __str__(self) -> str:
        return f"{self.key}/{self.node}"

    @property
    def may_begin(self) -> bool:
        """Whether it is served by the cluster as it is."""
        return True

    def start(self) -> None:
        """A new process."""
        self.life += 1
        self.is_gone = False
        self.transaction = None
        image = self.world.view.image
        may = image.features.get(TRANSACTION_VERSION, 0) >= 2
        self.speaks_2 = may and self._temper.random() < SPEAKS_2
        if any(topic not in image.topics for topic in TOPICS):
            self.soon(self.start, 200)
        else:
            self.find(partial(self.init, NOBODY))

    def _failed(self, code: ErrorCode | None, then: Callable[[], None]) -> None:
        """`then` is done again when the trouble may be over. None: no answer."""
        what = "nothing" if code is None else code.name
        self.world.met[f"transactional producer told {what}"] += 1
        if code is None or code in MOVED:
            self.soon(partial(self.find, then))
        elif code in AGAIN:
            self.soon(then)
        elif code is ErrorCode.unsupported_version:
            self.soon(then, NOT_SERVED_MS)
        elif code in FENCED or self.watch.facts.is_excused:
            self._fenced()
        else:
            raise AssertionError(f"{self} was told {code.name} in {self.transaction}")

    def _fenced(self) -> None:
        self.life += 1
        self.transaction = None
        if self.watch.is_newest(self):
            self.soon(self.start, PAUSE_MS)
        else:
            self.is_gone = True

    # -- its id

    def init(self, claimed: Producer) -> None:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=self.key,
            transaction_timeout_ms=TRANSACTION_MS,
            producer_id=claimed.producer_id,
            producer_epoch=claimed.epoch,
        )
        then = partial(self._has_id, claimed)
        self.ask_coordinator(INIT, request, then, INIT_TIMEOUT_MS)

    def _has_id(
        self, claimed: Producer, answer: init_producer_id.InitProducerIdResponse | None
    ) -> None:
        if answer is None or answer.error_code is not ErrorCode.none:
            code = None if answer is None else answer.error_code
            self._failed(code, partial(self.init, claimed))
            return
        self._is(answer, is_end=False)
        self.rest()

    def _is(
        self,
        answer: init_producer_id.InitProducerIdResponse | end_txn.EndTxnResponse,
        *,
        is_end: bool,
    ) -> None:
        """From now on this producer, and none of before."""
        self._goes_on_as(answer)
        self.watch.has_id(self, is_end=is_end)

    def _goes_on_as(
        self, answer: init_producer_id.InitProducerIdResponse | end_txn.EndTxnResponse
    ) -> None:
        epoch = ProducerEpoch(answer.producer_epoch)
        self.producer = Producer(ProducerId(answer.producer_id), epoch)
        self.sequences = dict.fromkeys(TOPICS, 0)

    def rest(self) -> None:
        self.transaction = None
        self.soon(partial(self._go_on, self._begin), 10 + self.rng.randrange(PAUSE_MS))

    # -- a transaction

    def _go_on(self, then: Callable[[], None]) -> None:
        """Or not."""
        if self.watch.is_calm or self.rng.random() >= MISBEHAVES:
            then()
        else:
            self._go_astray(then)

    def _go_astray(self, then: Callable[[], None]) -> None:
        which = self.rng.randrange(3)
        (self._crash, partial(self._stand_still, then), partial(self._is_followed, then))[which]()

    def _begin(self) -> None:
        if not self.watch.is_moving:
            self.rest()
            return
        transfers = 1 + self.rng.randrange(TRANSFERS_MAX)
        self.transaction = self.watch.facts.begun(
            self.key, self.producer, transfers, two_phase=self.two_phase
        )
        self._joining = [TOPICS] if self.rng.random() < 0.5 else [(each,) for each in TOPICS]
        self._legs, self.written = [], {}
        for _ in range(transfers):
            amount = 1 + self.rng.randrange(100)
            for topic, value in zip(TOPICS, (-amount, amount, 0), strict=True):
                self._legs.append((topic, self.batch(topic, value)))
        if self.speaks_2:
            self._go_on(self._write)
        else:
            self._add()

    def _add(self) -> None:
        topics = tuple(
            add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=(0,))
            for name in self._joining[0]
        )
        transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
            transactional_id=self.key,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            topics=topics,
        )
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=(transaction,))
        self.ask_coordinator(ADD, request, self._added, TIMEOUT_MS)

    def _added(self, answer: add_partitions_to_txn.AddPartitionsToTxnResponse | None) -> None:
        code: ErrorCode | None = None
        if answer is not None:
            codes = [
                part.partition_error_code
                for topic in answer.results_by_transaction[0].topic_results
                for part in topic.results_by_partition
            ]
            failed = [each for each in codes if each is not ErrorCode.none]
            code = failed[0] if failed else ErrorCode.none
        if code is not ErrorCode.none:
            self._failed(code, self._add)
            return
        self._joining.pop(0)
        self._go_on(self._add if self._joining else self._write)

    def _write(self) -> None:
        if not self._legs:
            self._end(is_commit=self.rng.random() >= ABORTS)
            return
        topic, data = self._legs[0]
        target = next((each for each in self.leaders if each.name == topic), None)
        leader = -1 if target is None else self.leaders[target]
        if target is None or leader < 0:
            self.soon(partial(self.refresh, self._of_this_life(self._write)))
            return
        request = self.produce_request(target, data)
        then = self._of_this_life(partial(self._written, target))
        self.ask(leader, PRODUCE if self.speaks_2 else PRODUCE_1, request, TIMEOUT_MS, then)

    def _written(self, target: Target, response: ProduceResponse | None) -> None:
        part = None if response is None else response.topics[0].partitions[0]
        code = None if part is None else ErrorCode(part.error_code)
        if code is ErrorCode.none:
            topic, data = self._legs.pop(0)
            self.written[topic] = data
            self._go_on(self._write)
        elif code is None or code in RETRIED or code in NOT_FOUND:
            self.soon(partial(self.refresh, self._of_this_life(self._write)))
        else:
            self._failed(code, self._write)

    def _end(self, *, is_commit: bool) -> None:
        assert self.transaction is not None
        self.transaction.asked = "commit" if is_commit else "abort"
        request = self.end_request(is_commit=is_commit)
        then = partial(self._ended, is_commit)
        self.ask_coordinator(END_2 if self.speaks_2 else END_1, request, then, TIMEOUT_MS)

    def _ended(self, is_commit: bool, answer: end_txn.EndTxnResponse | None) -> None:
        if answer is None or answer.error_code is not ErrorCode.none:
            code = None if answer is None else answer.error_code
            self._failed(code, partial(self._end, is_commit=is_commit))
            return
        self.watch.ended(self)
        comes_late = not self.watch.is_calm and self.rng.random() < COMES_LATE
        if comes_late and not self.speaks_2 and self.watch.all_verify:
            self.soon(self.write_behind, BEHIND_MS)
            return
        if comes_late and self.speaks_2:
            self.leave_behind(is_commit)
        if self.speaks_2:
            self._is(answer, is_end=True)
        if not is_commit and self.rng.random() < KEEPS_ID:
            self.transaction = None
            self.init(self.producer)
        else:
            self.rest()

    # -- what else may happen to it

    def _crash(self) -> None:
        self.crash()
        self.transaction = None
        self.is_gone = self.rng.random() < FOR_GOOD
        if self.is_gone:
            self.world.met["transactional producer died for good"] += 1
        else:
            self.world.met["transactional producer crashed"] += 1
            self.soon(self._come_back, 200 + self.rng.randrange(2_500))

    def _come_back(self) -> None:
        if self.watch.is_newest(self):
            self.start()
        else:
            self.is_gone = True

    def _stand_still(self, then: Callable[[], None]) -> None:
        """Longer than its transaction may last, sometimes; then it goes on as if nothing had
        been."""
        self.world.met["transactional producer stood still"] += 1
        self.soon(then, 300 + self.rng.randrange(3_000))

    def _is_followed(self, then: Callable[[], None]) -> None:
        """Its next process comes, and it does not know that."""
        self.world.met["transactional producer followed by its next process"] += 1
        rng = Random(self.rng.random())
        self.watch.add(type(self)(self.watch, self.node, rng, self.key)).start()
        self.soon(then, self.rng.randrange(1_000))
