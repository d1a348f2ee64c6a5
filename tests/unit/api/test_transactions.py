"""Transactions through their APIs: one broker and three, with offsets of groups, restarts, and
coordinators and leaders that go (KIP-98, KIP-447)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.image import (
    JOSEFINE_VERSION,
    OFFSETS_TOPIC,
    TRANSACTIONS_LEVEL,
    TRANSACTIONS_TOPIC,
)
from josefine_broker.engine.parked import Parked
from josefine_broker.engine.transacting import expire_transactions, tick_transactions
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.api.replicas import Replicas
from tests.unit.api.world import World, batch_of

TXN, GROUP = "t", "g"
TIMEOUT_MS = 60_000
Ask = Callable[[int, Any], Any]


class Client:
    """A transactional producer without a mind of its own; `ask` reaches the right broker."""

    def __init__(self, ask: Ask, transactional_id: str = TXN) -> None:
        self._ask = ask
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self.sequence = 0

    def ask(self, key: int, request: Any) -> Any:
        answer = self._ask(key, request)
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
        request = e.add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(
                e.add_partitions_to_txn.AddPartitionsToTxnTopic(
                    name=topic, partitions=(partition,)
                ),
            ),
        )
        answer = self.ask(apis.ADD_PARTITIONS_TO_TXN, request)
        (found,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        code: ErrorCode = found.partition_error_code
        return code

    def produce(self, value: bytes = b"v") -> Any:
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
        answer = self.ask(apis.PRODUCE, ProduceRequest(self.transactional_id, -1, 1_000, topics))
        return answer.topics[0].partitions[0].error_code

    def end(self, *, is_commit: bool = True) -> ErrorCode:
        request = e.end_txn.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        code: ErrorCode = self.ask(apis.END_TXN, request).error_code
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

    def commit_offset(self, offset: int, **member: Any) -> ErrorCode:
        part = e.txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        request = e.txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(
                e.txn_offset_commit.TxnOffsetCommitRequestTopic(name="orders", partitions=(part,)),
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


def find(ask: Ask, key: str, key_type: int) -> None:
    request = e.find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
    ask(apis.FIND_COORDINATOR, request)


@pytest.fixture
def world() -> World:
    found = World()
    found.create("orders")
    find(found.ask, TXN, 1)
    find(found.ask, GROUP, 0)
    return found


@pytest.fixture
def client(world: World) -> Client:
    found = Client(world.ask)
    assert found.init() is ErrorCode.none
    return found


def stable(ctx: Context) -> int:
    return ctx.hosted.partitions["orders", 0].partition.last_stable_offset


def test_transaction_is_hidden_until_it_is_committed(world: World, client: Client) -> None:
    assert client.add() is ErrorCode.none
    assert client.produce() == ErrorCode.none
    assert world.fetch(0, isolation=1).last_stable_offset == 0

    assert client.end() is ErrorCode.none

    answer = world.fetch(0, isolation=1)
    assert (answer.last_stable_offset, answer.aborted_transactions) == (2, ())


def test_aborted_transaction_is_told(world: World, client: Client) -> None:
    client.add()
    client.produce()

    assert client.end(is_commit=False) is ErrorCode.none

    (aborted,) = world.fetch(0, isolation=1).aborted_transactions
    assert aborted == (client.producer_id, 0)


def test_successor_fences_the_producer_in_every_partition(world: World, client: Client) -> None:
    client.add()
    client.produce()
    successor = Client(world.ask)

    assert successor.init() is ErrorCode.concurrent_transactions
    assert successor.init() is ErrorCode.none

    assert client.produce() == ErrorCode.invalid_producer_epoch
    assert client.add() is ErrorCode.producer_fenced
    assert client.end() is ErrorCode.producer_fenced
    successor.add()
    assert successor.produce() == ErrorCode.none
    assert successor.end() is ErrorCode.none
    assert stable(world.ctx) == 4


def test_transaction_is_timed_out(world: World, client: Client) -> None:
    client.add()
    client.produce()

    world.clock.elapsed_ms += TIMEOUT_MS + 1
    tick_transactions(world.ctx)

    assert stable(world.ctx) == 2
    assert client.end() is ErrorCode.producer_fenced


def test_what_is_not_there_does_not_join(world: World, client: Client) -> None:
    assert client.add("nowhere") is ErrorCode.unknown_topic_or_partition
    assert client.add(OFFSETS_TOPIC) is ErrorCode.topic_authorization_failed
    assert client.end() is ErrorCode.invalid_txn_state
    stranger = Client(world.ask, "stranger")
    assert stranger.add() is ErrorCode.invalid_producer_id_mapping
    assert Client(world.ask, "").init() is ErrorCode.invalid_request


def test_transaction_of_a_deleted_topic_is_completed(world: World, client: Client) -> None:
    client.add()
    client.produce()
    world.delete("orders")

    assert client.end() is ErrorCode.none

    view = world.ctx.clients.transactions.coordinator.view(TXN)
    assert view is not None
    assert view.record.state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_count_with_their_transaction(
    world: World, client: Client, is_commit: bool
) -> None:
    assert client.add_offsets() is ErrorCode.none
    assert client.commit_offset(7) is ErrorCode.none
    assert client.committed() == -1
    assert client.committed(stable=True) is ErrorCode.unstable_offset_commit
    world = world.restart()
    client._ask = world.ask
    assert client.committed(stable=True) is ErrorCode.unstable_offset_commit

    assert client.end(is_commit=is_commit) is ErrorCode.none

    assert client.committed(stable=True) == (7 if is_commit else -1)
    world = world.restart()
    client._ask = world.ask
    assert client.committed(stable=True) == (7 if is_commit else -1)


def test_offsets_of_an_older_generation_or_producer_are_fenced(
    world: World, client: Client
) -> None:
    client.add_offsets()
    assert client.commit_offset(7, generation_id=3, member_id="gone") is (
        ErrorCode.illegal_generation
    )
    client.commit_offset(7)
    successor = Client(world.ask)
    successor.init()
    successor.init()

    assert client.commit_offset(8) is ErrorCode.invalid_producer_epoch
    assert successor.committed(stable=True) == -1


def test_ids_that_nobody_uses_are_forgotten(world: World, client: Client) -> None:
    world.clock.elapsed_ms += world.settings.offsets.transactions.id_expiration_ms + 1

    list(expire_transactions(world.ctx))

    assert client.add() is ErrorCode.invalid_producer_id_mapping
    world = world.restart()
    assert world.ctx.clients.transactions.coordinator.views() == []


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
        features = {JOSEFINE_VERSION: TRANSACTIONS_LEVEL}
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

    def ask(self, key: int, request: Any) -> Any:
        """Whom it concerns; the answer once everything has moved."""
        topic = {
            apis.PRODUCE: "orders",
            apis.OFFSET_FETCH: OFFSETS_TOPIC,
            apis.TXN_OFFSET_COMMIT: OFFSETS_TOPIC,
        }.get(key, TRANSACTIONS_TOPIC)
        leader = self.replicas.image.topics[topic].partitions[0].leader
        answer = self.replicas.ask(leader, key, request)
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


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_markers_go_to_the_leaders_of_other_brokers(cluster: Cluster) -> None:
    client = Client(cluster.ask)
    assert client.init() is ErrorCode.none
    assert client.add() is ErrorCode.none
    assert client.produce() == ErrorCode.none
    assert client.add_offsets() is ErrorCode.none
    assert client.commit_offset(5) is ErrorCode.none

    assert client.end() is ErrorCode.none
    cluster.run()

    assert cluster.state() is TransactionState.COMPLETE_COMMIT
    assert client.committed(stable=True) == 5
    for ctx in cluster.replicas.ctx.values():
        assert stable(ctx) == 2


def test_coordinator_that_dies_behind_its_decision_is_followed_by_one_that_completes_it(
    cluster: Cluster,
) -> None:
    client = Client(cluster.ask)
    client.init()
    client.add()
    client.produce()
    cluster.deaf = {1, 2, 3}
    assert client.end() is ErrorCode.none
    assert cluster.state() is TransactionState.PREPARE_COMMIT
    cluster.deaf = set()

    cluster.replicas.kill(cluster.coordinator())
    cluster.run()

    assert cluster.state() is TransactionState.COMPLETE_COMMIT
    assert stable(cluster.replicas.ctx[1]) == 2
    assert client.add() is ErrorCode.none, "the producer goes on"


def test_coordinator_that_dies_with_an_open_transaction_is_followed_by_one_that_knows_it(
    cluster: Cluster,
) -> None:
    client = Client(cluster.ask)
    client.init()
    client.add()
    client.produce()

    cluster.replicas.kill(cluster.coordinator())
    cluster.run()
    assert cluster.state() is TransactionState.ONGOING
    cluster.replicas.clock.elapsed_ms += TIMEOUT_MS
    cluster.run()

    assert cluster.state() is TransactionState.COMPLETE_ABORT
    assert stable(cluster.replicas.ctx[1]) == 2


def test_marker_to_a_leader_that_died_goes_to_the_next_one(cluster: Cluster) -> None:
    client = Client(cluster.ask)
    client.init()
    client.add()
    client.produce()
    cluster.replicas.kill(1)
    cluster.run()

    assert client.end() is ErrorCode.none
    cluster.run()

    assert cluster.state() is TransactionState.COMPLETE_COMMIT
    leader = cluster.replicas.entry().leader
    assert leader != 1
    assert stable(cluster.replicas.ctx[leader]) == 2


def test_marker_of_a_deposed_coordinator_is_refused(cluster: Cluster) -> None:
    """Its epoch is that of the partition that it led."""
    client = Client(cluster.ask)
    client.init()
    client.add()
    client.produce()
    cluster.replicas.kill(cluster.coordinator())
    cluster.run()
    client.end()
    cluster.run()
    marker = e.write_txn_markers.WritableTxnMarker(
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        transaction_result=False,
        topics=(e.write_txn_markers.WritableTxnMarkerTopic(name="orders", partition_indexes=(0,)),),
        coordinator_epoch=0,
    )

    answer = cluster.replicas.ask(
        1, apis.WRITE_TXN_MARKERS, e.write_txn_markers.WriteTxnMarkersRequest(markers=(marker,))
    )

    (part,) = answer.markers[0].topics[0].partitions
    assert part.error_code is ErrorCode.transaction_coordinator_fenced
