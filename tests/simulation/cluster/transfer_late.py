"""What a virtual transactional producer says, in either version of the protocol, and what of that
comes late: the end of a transaction, or a batch that it had given up, long after (KIP-890).

In version 2 nobody asks what became of that: the next transaction has another epoch. Who commits
has been told of all its batches, so only one of these comes again. In version 1 its epoch is the
next one's too, so only a batch between the two can be known for what it is.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.transactions.values import NOBODY, Producer
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire import apis
from josefine_broker.wire.entities import end_txn
from josefine_broker.wire.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.coordinated import CoordinatedClient
from tests.simulation.cluster.producing import ACKS_ALL, PRODUCE
from tests.simulation.cluster.transfer_facts import TOPICS, Transaction

if TYPE_CHECKING:
    from tests.simulation.cluster.transfer_watch import TransferWatch

__all__ = ["END_1", "END_2", "PRODUCE_1", "TIMEOUT_MS", "SpeakingProducer"]

END_1, END_2 = (apis.END_TXN, 4), (apis.END_TXN, 5)
PRODUCE_1 = apis.PRODUCE, 11
TIMEOUT_MS = 900
LATE_MS = 500


class SpeakingProducer(CoordinatedClient):
    """One process at a time; what it does is in `transfer_producers.py`."""

    key_type = 1
    never_goes_back = True

    def __init__(self, watch: TransferWatch, node: int, rng: Random, transactional_id: str) -> None:
        super().__init__(watch.world, node, rng, transactional_id)
        self.watch = watch
        self.producer = NOBODY
        self.transaction: Transaction | None = None
        """The one that it is in."""
        self.speaks_2 = False
        self.sequences: dict[str, int] = {}
        self.written: dict[str, bytes] = {}
        """By topic the last batch of the transaction that it was told of."""

    def init(self, claimed: Producer) -> None:
        """Take the id, perhaps as the producer that has it."""
        raise NotImplementedError

    def rest(self) -> None:
        """Begin the next transaction soon."""
        raise NotImplementedError

    def batch(self, topic: str, amount: int) -> bytes:
        assert self.transaction is not None
        sequence = self.sequences[topic]
        self.sequences[topic] = sequence + 1
        value = f"{self.transaction.token} {amount}".encode()
        batch = build_batch(
            [Record(value=value)],
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return bytes(batch)

    def end_request(self, *, is_commit: bool) -> end_txn.EndTxnRequest:
        return end_txn.EndTxnRequest(
            transactional_id=self.key,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=is_commit,
        )

    def produce_request(self, target: Target, data: bytes) -> ProduceRequest:
        part = ProducePartition(0, memoryview(bytearray(data)))
        name, topic_id = ("", target.topic_id) if self.speaks_2 else (target.name, None)
        topics = (ProduceTopic(name, topic_id, (part,)),)
        return ProduceRequest(self.key, ACKS_ALL, TIMEOUT_MS - 200, topics)

    # -- what comes late

    def leave_behind(self, is_commit: bool) -> None:
        """Its end, and a batch, come again in the next transaction: nobody asks what became of
        them."""
        end = self.end_request(is_commit=is_commit)
        target = self.rng.choice([each for each in self.leaders if each.name in TOPICS])
        data = self.written[target.name] if is_commit else self.batch(target.name, 0)
        batch = self.produce_request(target, data)
        coordinator, leader = self.coordinator, self.leaders[target]
        self.world.met["end and batch that came late, version 2"] += 1

        def send() -> None:
            self.ask(coordinator, END_2, end, TIMEOUT_MS, None)
            if leader >= 0:
                self.ask(leader, PRODUCE, batch, TIMEOUT_MS, None)

        self.soon(send, self.rng.randrange(LATE_MS))

    def write_behind(self) -> None:
        """A batch behind the end of its transaction, once every marker is written: before that it
        would be let in. As it has the epoch of the next one its producer waits for the answer, and
        without one takes its next epoch."""
        if not self.watch.is_completed(self.key):
            self.rest()
            return
        target = self.rng.choice([each for each in self.leaders if each.name in TOPICS])
        batch = self.produce_request(target, self.batch(target.name, 0))
        self.sequences[target.name] -= 1
        self.world.met["batch that came late, version 1"] += 1
        leader = self.leaders[target]
        if leader < 0:
            self.rest()
            return
        then = self._of_this_life(partial(self._told_of_late, target))
        self.ask(leader, PRODUCE_1, batch, TIMEOUT_MS, then)

    def _told_of_late(self, target: Target, response: ProduceResponse | None) -> None:
        if response is None:
            self.init(NOBODY)
            return
        code = ErrorCode(response.topics[0].partitions[0].error_code)
        assert code is not ErrorCode.none or self.watch.facts.is_excused, (
            f"{target.name}: a batch of {self} was let in behind the end of {self.transaction}"
        )
        self.world.met[f"late batch told {code.name}"] += 1
        self.rest()
