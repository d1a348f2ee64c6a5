"""Transactions through their APIs: one broker and three, with offsets of groups, restarts, and
coordinators and leaders that go (KIP-98, KIP-447)."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.coordinators.loading_groups import shorten_offsets_log
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.coordinators.transactions_host import (
    expire_transactions,
    tick_transactions,
)
from josefine_broker.engine.metadata.image import (
    OFFSETS_TOPIC,
)
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.transaction_clients import (
    GROUP,
    TIMEOUT_MS,
    TXN,
    Client,
    Cluster,
    find,
    stable,
    transaction_world,
)
from tests.unit.josefine_broker.api.world import World

world = fixture_of(transaction_world)


@pytest.fixture
def client(world: World) -> Client:
    found = Client(world.ask)
    assert found.init() is ErrorCode.none
    return found


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


def test_coordinator_whose_session_has_ended_refuses_nothing_for_good(
    world: World, client: Client
) -> None:
    """Cluster simulation, seed 4646289: a broker that stood still answered by what it knew before,
    and the commit of a transaction that its successor had begun failed for ever."""
    assert client.end() is ErrorCode.invalid_txn_state

    world.ctx.cluster.session_end_ms = world.clock.monotonic_ms()

    assert client.end() is ErrorCode.coordinator_not_available


def test_what_is_not_there_does_not_join(world: World, client: Client) -> None:
    assert client.add("nowhere") is ErrorCode.unknown_topic_or_partition
    assert client.add(OFFSETS_TOPIC) is ErrorCode.topic_authorization_failed
    assert client.end() is ErrorCode.invalid_txn_state
    assert client.add(OFFSETS_TOPIC, 999) is ErrorCode.topic_authorization_failed
    stranger = Client(world.ask, "stranger")
    assert stranger.add() is ErrorCode.invalid_producer_id_mapping
    assert Client(world.ask, "").init() is ErrorCode.invalid_request


def test_partitions_are_checked_before_the_transactional_id(world: World) -> None:
    """As in KafkaApis.handleAddPartitionsToTxnRequest."""
    nameless = Client(world.ask, "")

    assert nameless.add("nowhere") is ErrorCode.unknown_topic_or_partition
    assert nameless.add() is ErrorCode.invalid_request


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


@pytest.mark.parametrize("member", [{}, {"generation_id": 3, "member_id": "gone"}])
def test_unknown_topic_is_reported_also_to_who_may_not_commit(
    world: World, client: Client, member: dict[str, Any]
) -> None:
    """As Kafka does: the group never sees such a partition. Found by tests/oracle."""
    client.epoch += 1

    assert client.commit_offset(7, **member) is not ErrorCode.none
    assert client.commit_offset(7, "no", **member) is ErrorCode.unknown_topic_or_partition


def test_unknown_topic_is_reported_also_where_the_transaction_is_refused(
    world: World, client: Client
) -> None:
    """The coordinator of the transaction is asked first (KIP-890)."""
    find(world.ask, GROUP, 0)
    part = e.txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1
    )
    topics = tuple(
        e.txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=(part,))
        for name in ("orders", "no")
    )
    request = e.txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=TXN, group_id=GROUP, producer_id=77, producer_epoch=0, topics=topics
    )

    answer = client.ask(apis.TXN_OFFSET_COMMIT, request)

    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert codes == [
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.unknown_topic_or_partition,
    ]


def test_ids_that_nobody_uses_are_forgotten(world: World, client: Client) -> None:
    world.clock.elapsed_ms += world.settings.offsets.transactions.id_expiration_ms + 1

    list(expire_transactions(world.ctx))

    assert client.add() is ErrorCode.invalid_producer_id_mapping
    world = world.restart()
    assert world.ctx.clients.transactions.coordinator.views() == []


cluster = fixture_of(Cluster)


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


@pytest.mark.parametrize("is_commit", [True, False])
def test_pending_offsets_of_a_former_coordinator_of_the_group_are_not_there_when_it_is_one_again(
    cluster: Cluster, is_commit: bool
) -> None:
    """Their transaction ended while another broker coordinated the group."""
    client = Client(cluster.ask)
    client.init()
    client.add_offsets()
    assert client.commit_offset(7) is ErrorCode.none
    assert client.committed(stable=True) is ErrorCode.unstable_offset_commit
    cluster.replicas.lead(1, topic_name=OFFSETS_TOPIC)
    cluster.run()
    client.end(is_commit=is_commit)
    cluster.run()

    cluster.replicas.lead(3, topic_name=OFFSETS_TOPIC)
    cluster.run()

    assert client.committed(stable=True) == (7 if is_commit else -1)


def test_offsets_log_is_not_shortened_while_a_transaction_is_open(
    world: World, client: Client
) -> None:
    """What is pending is nowhere else."""
    client.add_offsets()
    client.commit_offset(7)
    tp, hosted = coordinator_of(world.ctx, GROUP)

    shorten_offsets_log(world.ctx, tp, hosted, 0)

    assert hosted.log.log_start_offset == 0
    world = world.restart()
    client._ask = world.ask
    assert client.end() is ErrorCode.none
    assert client.committed(stable=True) == 7
    tp, hosted = coordinator_of(world.ctx, GROUP)
    shorten_offsets_log(world.ctx, tp, hosted, 0)
    assert hosted.log.log_start_offset > 0
