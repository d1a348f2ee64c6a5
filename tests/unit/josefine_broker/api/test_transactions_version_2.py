"""Producers of version 2 through their APIs (KIP-890): leaders add partitions and groups, every end
raises the epoch, and what comes late reaches no other transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.values import EPOCH_LAST, VERSION_2, Producer
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.test_verification import code_of
from tests.unit.josefine_broker.api.transaction_clients import (
    TXN,
    Client,
    Cluster,
    stable,
    transaction_world,
)
from tests.unit.josefine_broker.api.world import World

COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


world = fixture_of(transaction_world)


@pytest.fixture
def client(world: World) -> Client:
    found = Client(world.ask, speaks=VERSION_2)
    assert found.init() is ErrorCode.none
    return found


def record_of(world: World) -> Any:
    view = world.ctx.clients.transactions.coordinator.view(TXN)
    assert view is not None
    return view.record


def end_request(client: Client, *, is_commit: bool = True) -> e.end_txn.EndTxnRequest:
    return e.end_txn.EndTxnRequest(
        transactional_id=TXN,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        committed=is_commit,
    )


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_of_version_1_ends_a_transaction_that_requests_of_version_2_began(
    world: World, client: Client, *, is_commit: bool
) -> None:
    """Its markers keep the epoch of its batches. They were taken for those of an earlier epoch and
    not written: the end was acknowledged, and the last stable offset stayed for ever. Found by
    tests/oracle."""
    for at in range(1, 3):
        assert client.produce() == ErrorCode.none
        client.versions = {apis.END_TXN: 4}

        assert client.end(is_commit=is_commit) is ErrorCode.none

        assert stable(world.ctx) == 2 * at
        assert record_of(world).state in COMPLETE


def test_first_batch_begins_the_transaction_and_the_end_raises_the_epoch(
    world: World, client: Client
) -> None:
    for at in range(3):
        assert client.epoch == at
        assert client.produce() == ErrorCode.none
        assert record_of(world).partitions == {TopicPartition("orders", 0)}
        assert client.end(is_commit=at != 1) is ErrorCode.none

    answer = world.fetch(0, isolation=1)
    assert answer.last_stable_offset == 6
    assert [each.first_offset for each in answer.aborted_transactions] == [2]


def test_late_end_does_not_end_the_next_transaction(world: World, client: Client) -> None:
    client.produce()
    late = end_request(client)
    assert client.end() is ErrorCode.none
    again = world.ask(apis.END_TXN, late)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.none, client.epoch)
    assert client.produce() == ErrorCode.none

    assert world.ask(apis.END_TXN, late).error_code is ErrorCode.producer_fenced

    assert stable(world.ctx) == 2
    assert record_of(world).state is TransactionState.ONGOING


def test_late_batch_reaches_no_transaction(world: World, client: Client) -> None:
    """Neither one that is over nor the next one: its epoch is fenced, also where its transaction
    had never written."""
    world.create("other")
    late = client.request()
    elsewhere = late.topics[0]._replace(name="other")
    assert client.end(is_commit=False) is ErrorCode.none
    client.produce()

    for topics in (late.topics, (elsewhere,)):
        answer = world.ask(apis.PRODUCE, late._replace(topics=topics))
        assert code_of(answer) is ErrorCode.invalid_producer_epoch

    assert client.end() is ErrorCode.none
    assert stable(world.ctx) == 2
    assert world.ctx.hosted.partitions["other", 0].log.log_end_offset == 0


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_join_by_being_committed(world: World, client: Client, is_commit: bool) -> None:
    assert client.commit_offset(7) is ErrorCode.none
    assert {tp.topic for tp in record_of(world).partitions} == {OFFSETS_TOPIC}
    late = client.producer_id, client.epoch

    assert client.end(is_commit=is_commit) is ErrorCode.none

    assert client.committed(stable=True) == (7 if is_commit else -1)
    behind = Client(world.ask, speaks=VERSION_2)
    behind.producer_id, behind.epoch = late
    assert behind.commit_offset(9) is ErrorCode.invalid_producer_epoch


def test_producer_may_be_of_either_version(world: World, client: Client) -> None:
    client.produce()
    client.end()
    older = Client(world.ask)
    assert older.init() is ErrorCode.none
    assert older.add() is ErrorCode.none
    assert older.produce() == ErrorCode.none
    epoch = older.epoch
    assert older.end() is ErrorCode.none
    assert (older.epoch, record_of(world).producer.epoch) == (epoch, epoch)
    client.init()
    assert client.produce() == ErrorCode.none
    assert client.end() is ErrorCode.none
    assert stable(world.ctx) == 6


def test_marker_that_comes_twice_does_not_end_the_next_transaction(
    world: World, client: Client
) -> None:
    """KIP-1228: both are of one epoch."""
    client.produce()
    client.end()
    client.produce()
    marker = e.write_txn_markers.WritableTxnMarker(
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        transaction_result=True,
        topics=(e.write_txn_markers.WritableTxnMarkerTopic(name="orders", partition_indexes=(0,)),),
        coordinator_epoch=0,
        transaction_version=2,
    )
    request = e.write_txn_markers.WriteTxnMarkersRequest(markers=(marker,))

    (part,) = world.ask(apis.WRITE_TXN_MARKERS, request).markers[0].topics[0].partitions

    assert part.error_code is ErrorCode.invalid_producer_epoch
    assert stable(world.ctx) == 2


def test_used_up_epochs_go_on_under_another_id(world: World, client: Client) -> None:
    coordinator = world.ctx.clients.transactions.coordinator
    found = coordinator._transactions[TXN]
    last = Producer(ProducerId(client.producer_id), ProducerEpoch(EPOCH_LAST))
    found.record = replace(found.record, producer=last)
    client.epoch = EPOCH_LAST
    before = client.producer_id
    assert client.produce() == ErrorCode.none

    assert client.end() is ErrorCode.none

    assert client.producer_id != before
    assert client.epoch == 0
    assert record_of(world).previous_id == before
    assert client.produce() == ErrorCode.none
    world = world.restart()
    client._ask = world.ask
    assert record_of(world).previous_id == before, "kept in a tagged field"
    assert client.end() is ErrorCode.none
    assert stable(world.ctx) == 4


def test_leaders_ask_the_coordinator_of_another_broker() -> None:
    cluster = Cluster()
    client = Client(cluster.ask, speaks=VERSION_2)
    assert client.init() is ErrorCode.none

    for _ in range(2):
        assert client.produce() == ErrorCode.none
        assert client.commit_offset(5) is ErrorCode.none
        assert client.end() is ErrorCode.none
        cluster.run()

    assert cluster.state() is TransactionState.COMPLETE_COMMIT
    assert client.committed(stable=True) == 5
    assert {stable(ctx) for ctx in cluster.replicas.ctx.values()} == {4}
