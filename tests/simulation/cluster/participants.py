"""A virtual participant of a two-phase commit (KIP-939): it writes transfers, prepares, and ends
its transaction as somebody outside has decided; it crashes at any of these points and comes back to
what was kept for it.

Outside is a log that never crashes, and knows who is the participant's newest process: what one
that was followed says is refused. A process first looks what is kept: what it finds undecided it
decides if it was prepared, and aborts if not, for nobody will prepare it any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.metadata.image import TRANSACTION_VERSION
from josefine_broker.engine.transactions.values import NOBODY, VERSION_2, Producer
from josefine_broker.wire import apis
from josefine_broker.wire.entities import end_txn, init_producer_id
from tests.simulation.cluster.transfer_facts import TOPICS
from tests.simulation.cluster.transfer_late import END_2, TIMEOUT_MS
from tests.simulation.cluster.transfer_producers import (
    INIT_TIMEOUT_MS,
    NOT_SERVED_MS,
    TRANSACTION_MS,
    TransferProducer,
)

if TYPE_CHECKING:
    from tests.simulation.cluster.transfer_watch import TransferWatch

__all__ = ["Participant"]

INIT = apis.INIT_PRODUCER_ID, 6
STRAYS = 0.4
"""Once it has prepared, and once it knows the decision: it crashes, stands still or is followed."""
COMMITS = 0.7


class Participant(TransferProducer):
    """One process at a time."""

    two_phase = True

    def __init__(self, watch: TransferWatch, node: int, rng: Random, transactional_id: str) -> None:
        super().__init__(watch, node, rng, transactional_id)
        self.speaks_2 = True

    @property
    def may_begin(self) -> bool:
        return self.world.view.image.features.get(TRANSACTION_VERSION, 0) >= VERSION_2

    def start(self) -> None:
        self.life += 1
        self.is_gone = False
        self.transaction = None
        is_there = all(topic in self.world.view.image.topics for topic in TOPICS)
        if is_there and self.may_begin:
            self.find(partial(self.init, NOBODY))
        else:
            self.soon(self.start, NOT_SERVED_MS)

    # -- its id, and what was kept under it

    def init(self, claimed: Producer) -> None:
        """The timeout that it names is not its own: the broker's bound is."""
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=self.key,
            transaction_timeout_ms=TRANSACTION_MS,
            enable2_pc=True,
            keep_prepared_txn=True,
        )
        self.ask_coordinator(INIT, request, partial(self._has_id, claimed), INIT_TIMEOUT_MS)

    def _has_id(
        self, claimed: Producer, answer: init_producer_id.InitProducerIdResponse | None
    ) -> None:
        code = None if answer is None else answer.error_code
        if code is ErrorCode.unsupported_version:  # this broker has not applied the level yet
            self.soon(partial(self.init, claimed), NOT_SERVED_MS)
            return
        if answer is None or code is not ErrorCode.none:
            self._failed(code, partial(self.init, claimed))
            return
        kept = Producer(
            ProducerId(answer.ongoing_txn_producer_id),
            ProducerEpoch(answer.ongoing_txn_producer_epoch),
        )
        if not self.watch.is_newest(self):
            self._fenced()
        elif kept == NOBODY:
            self._check_nothing_is_lost()
            self._is(answer, is_end=False)
            self.rest()
        else:
            self._take_over(answer, kept)

    def _check_nothing_is_lost(self) -> None:
        for each in self.watch.facts.transactions.values():
            is_waiting = each.is_prepared and not each.decision
            assert each.transactional_id != self.key or not is_waiting or self.is_excused, (
                f"{self} is told that nothing is kept, and nobody has decided on {each}"
            )

    @property
    def is_excused(self) -> bool:
        return self.watch.facts.is_excused

    def _take_over(self, answer: init_producer_id.InitProducerIdResponse, kept: Producer) -> None:
        """It ends what is kept, and writes nothing into it; a late batch may still be let in."""
        known = self.watch.facts.transactions.values()
        began = (each for each in known if each.transactional_id == self.key)
        self.transaction = next((each for each in began if each.producer == kept), None)
        assert self.transaction is not None, f"{self} is told that {kept} is kept: it began nothing"
        self._goes_on_as(answer)
        state = "prepared" if self.transaction.is_prepared else "open"
        self.world.met[f"participant came back to a transaction kept {state}"] += 1
        self._decide()

    # -- two phases

    def _end(self, *, is_commit: bool) -> None:
        """All of it is written. Outside it is told so, unless another process came meanwhile."""
        assert self.transaction is not None
        if not self.watch.is_newest(self):
            self._fenced()
            return
        self.transaction.is_prepared = True
        self.world.met["participant prepared"] += 1
        self._stray(self._decide)

    def _decide(self) -> None:
        transaction = self.transaction
        assert transaction is not None
        if not self.watch.is_newest(self):
            self._fenced()
            return
        if not transaction.decision:
            commits = transaction.is_prepared and self.rng.random() < COMMITS
            transaction.decision = "commit" if commits else "abort"
            self.world.met[f"decided outside to {transaction.decision}"] += 1
        self._stray(self._carry_out)

    def _carry_out(self) -> None:
        transaction = self.transaction
        assert transaction is not None
        transaction.asked = transaction.decision
        request = self.end_request(is_commit=transaction.asked == "commit")
        self.ask_coordinator(END_2, request, self._carried_out, TIMEOUT_MS)

    def _carried_out(self, answer: end_txn.EndTxnResponse | None) -> None:
        transaction = self.transaction
        assert transaction is not None
        if answer is None or answer.error_code is not ErrorCode.none:
            self._failed(None if answer is None else answer.error_code, self._carry_out)
            return
        self.watch.ended(self)
        if transaction.producer == self.producer:
            self._is(answer, is_end=True)
            self.rest()
        elif transaction.is_prepared:  # its markers are of the epoch between
            self._goes_on_as(answer)
            self.rest()
        else:  # a batch that nobody waits for may lie behind this, and before the marker
            self.start()

    # -- what else may happen to it

    def _stray(self, then: Callable[[], None]) -> None:
        if self.watch.is_calm or self.rng.random() >= STRAYS:
            then()
        else:
            self._go_astray(then)

    def _crash(self) -> None:
        """Outside waits for it: it comes back in any case."""
        self.crash()
        self.transaction = None
        self.world.met["participant crashed"] += 1
        self.soon(self._come_back, 200 + self.rng.randrange(2_500))
