"""A transactional producer that does what a test says, and three brokers that ask each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.transactions_host import tick_transactions
from josefine_broker.engine.metadata.image import (
    JOSEFINE_VERSION,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    VERIFYING_LEVEL,
)
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.values import VERSION_1
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import World, batch_of

TXN, GROUP = "t", "g"
TIMEOUT_MS = 60_000
Ask = Callable[..., Any]
V1 = {
    apis.PRODUCE: 11,
    apis.ADD_PARTITIONS_TO_TXN: 3,
    apis.ADD_OFFSETS_TO_TXN: 3,
    apis.END_TXN: 4,
    apis.TXN_OFFSET_COMMIT: 4,
}
"""What producers ask in that add their partitions themselves (before KIP-890's second part)."""


class Client:
    """A transactional producer without a mind of its own; `ask` reaches the right broker."""

    def __init__(self, ask: Ask, transactional_id: str = TXN, *, speaks: int = VERSION_1) -> None:
        self._ask = ask
        self.versions = V1 if speaks == VERSION_1 else {}
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self.sequence = 0

    def ask(self, key: int, request: Any) -> Any:
        answer = self._ask(key, request, version=self.versions.get(key))
        return answer.response if isinstance(answer, Parked) and answer.done else answer

    def init(self, timeout_ms: int = TIMEOUT_MS) -> ErrorCode:
        request = e.init_producer_id.InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        answer = self.ask(apis.INIT_PRODUCER_ID, request)
        if answer.error_code is ErrorCode.none:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        code: ErrorCode = answer.error_code
        return code

    def add(self, topic: str = "orders", partition: int = 0) -> ErrorCode:
        transaction = e.add_partitions_to_txn.AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(
                e.add_partitions_to_txn.AddPartitionsToTxnTopic(
                    name=topic, partitions=(partition,)
                ),
            ),
        )
        request = e.add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=(transaction,))
        answer = self.ask(apis.ADD_PARTITIONS_TO_TXN, request)
        (found,) = answer.results_by_transaction[0].topic_results[0].results_by_partition
        code: ErrorCode = found.partition_error_code
        return code

    def request(self, value: bytes = b"v") -> ProduceRequest:
        """With the next batch."""
        batch = batch_of(
            value,
            transactional=True,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )
        self.sequence += 1
        part = ProducePartition(0, memoryview(bytearray(batch)))
        topics = (ProduceTopic("orders", None, (part,)),)
        return ProduceRequest(self.transactional_id, -1, 1_000, topics)

    def produce(self, value: bytes = b"v") -> Any:
        answer = self.ask(apis.PRODUCE, self.request(value))
        return answer.topics[0].partitions[0].error_code

    def end(self, *, is_commit: bool = True) -> ErrorCode:
        request = e.end_txn.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = self.ask(apis.END_TXN, request)
        code: ErrorCode = answer.error_code
        if code is ErrorCode.none and not self.versions:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        return code

    def add_offsets(self) -> ErrorCode:
        request = e.add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=GROUP,
        )
        code: ErrorCode = self.ask(apis.ADD_OFFSETS_TO_TXN, request).error_code
        return code

    def commit_offset(self, offset: int, topic: str = "orders", **member: Any) -> ErrorCode:
        part = e.txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        request = e.txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(
                e.txn_offset_commit.TxnOffsetCommitRequestTopic(name=topic, partitions=(part,)),
            ),
            **member,
        )
        answer = self.ask(apis.TXN_OFFSET_COMMIT, request)
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    def committed(self, *, stable: bool = False) -> Any:
        topic = e.offset_fetch.OffsetFetchRequestTopics(name="orders", partition_indexes=(0,))
        group = e.offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=(topic,))
        request = e.offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=stable)
        (part,) = self.ask(apis.OFFSET_FETCH, request).groups[0].topics[0].partitions
        return part.error_code if part.error_code else part.committed_offset


def transaction_world(*ids: str, group: bool = True, **of: Any) -> World:
    """A broker with the topic `orders` that coordinates the transactional ids (without any: TXN)
    and, if it is to, the group GROUP. `of` as for World."""
    world = World(**of)
    world.create()
    for each in ids or (TXN,):
        find(world.ask, each, 1)
    if group:
        find(world.ask, GROUP, 0)
    return world


def find(ask: Ask, key: str, key_type: int) -> None:
    request = e.find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
    ask(apis.FIND_COORDINATOR, request)


def stable(ctx: Context) -> int:
    return ctx.hosted.partitions["orders", 0].partition.last_stable_offset


class Cluster:
    """Three brokers that ask each other; words to `deaf` brokers are lost."""

    def __init__(self) -> None:
        self.replicas = Replicas()
        self.deaf: set[int] = set()
        self.replicas.create("orders")
        self.replicas.create(TRANSACTIONS_TOPIC, replicas=((2, 1, 3),))
        self.replicas.create(OFFSETS_TOPIC, replicas=((3, 1, 2),))
        self.connect()

    def connect(self) -> None:
        features = {JOSEFINE_VERSION: VERIFYING_LEVEL}
        for ctx in self.replicas.ctx.values():
            ctx.ports.forward = self._forward
            ctx.image = replace(ctx.image, features=features)

    def _forward(
        self, broker_id: int, key: int, request: Any, deadline_ms: int, on_answer: Any
    ) -> None:
        if broker_id in self.deaf or broker_id not in self.replicas.ctx:
            on_answer(None)
            return
        answer = self.replicas.ask(broker_id, key, request)
        if isinstance(answer, Parked):
            answer.on_done = lambda done: on_answer(done.response)
        else:
            on_answer(answer)

    def ask(self, key: int, request: Any, version: int | None = None) -> Any:
        """Whom it concerns; the answer once everything has moved."""
        topic = {
            apis.PRODUCE: "orders",
            apis.OFFSET_FETCH: OFFSETS_TOPIC,
            apis.TXN_OFFSET_COMMIT: OFFSETS_TOPIC,
        }.get(key, TRANSACTIONS_TOPIC)
        leader = self.replicas.image.topics[topic].partitions[0].leader
        answer = self.replicas.ask(leader, key, request, version)
        self.run()
        if isinstance(answer, Parked):
            assert answer.done, "nobody answers"
            return answer.response
        return answer

    def run(self) -> None:
        for _ in range(4):
            self.replicas.run()
            for ctx in self.replicas.ctx.values():
                tick_transactions(ctx)
            self.replicas.advance(500)
        self.replicas.run()

    def coordinator(self) -> int:
        return self.replicas.image.topics[TRANSACTIONS_TOPIC].partitions[0].leader

    def state(self) -> TransactionState:
        ctx = self.replicas.ctx[self.coordinator()]
        view = ctx.clients.transactions.coordinator.view(TXN)
        assert view is not None
        return view.record.state
