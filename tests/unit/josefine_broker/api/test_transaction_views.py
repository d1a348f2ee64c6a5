"""What admins are told of transactions and producers (KIP-664, KIP-994)."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.coordinators.loading_transactions import begin_loading_transactions
from josefine_broker.engine.metadata.image import TRANSACTIONS_TOPIC
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.transaction_clients import (
    TIMEOUT_MS,
    TXN,
    Client,
    Cluster,
    transaction_world,
)
from tests.unit.josefine_broker.api.world import World

world = fixture_of(lambda: transaction_world(group=False))


@pytest.fixture
def client(world: World) -> Client:
    """It has a transaction open in `orders`."""
    found = Client(world.ask)
    assert found.init() is ErrorCode.none
    assert found.add() is ErrorCode.none
    assert found.produce() == ErrorCode.none
    return found


def listed(world: World, **filters: Any) -> list[tuple[str, str]]:
    answer = world.ask(
        apis.LIST_TRANSACTIONS, e.list_transactions.ListTransactionsRequest(**filters)
    )
    assert answer.error_code is ErrorCode.none
    return [(each.transactional_id, each.transaction_state) for each in answer.transaction_states]


def described(world: World | Cluster, name: str = TXN) -> e.describe_transactions.TransactionState:
    request = e.describe_transactions.DescribeTransactionsRequest(transactional_ids=(name,))
    answer = world.ask(apis.DESCRIBE_TRANSACTIONS, request)
    found: e.describe_transactions.TransactionState = answer.transaction_states[0]
    return found


def producers(world: World, index: int = 0) -> e.describe_producers.PartitionResponse:
    topic = e.describe_producers.TopicRequest(name="orders", partition_indexes=(index,))
    request = e.describe_producers.DescribeProducersRequest(topics=(topic,))
    answer = world.ask(apis.DESCRIBE_PRODUCERS, request)
    found: e.describe_producers.PartitionResponse = answer.topics[0].partitions[0]
    return found


def test_transactions_are_listed_by_state_producer_and_how_long_they_run(
    world: World, client: Client
) -> None:
    idle = Client(world.ask, "idle")
    idle.init()
    world.clock.elapsed_ms += 5_000

    assert listed(world) == [("idle", "Empty"), (TXN, "Ongoing")]
    assert listed(world, state_filters=("Ongoing",)) == [(TXN, "Ongoing")]
    assert listed(world, producer_id_filters=(idle.producer_id,)) == [("idle", "Empty")]
    assert listed(world, duration_filter=4_999) == [(TXN, "Ongoing")]
    assert listed(world, duration_filter=5_000) == []


def test_transactions_are_listed_by_an_expression_for_the_whole_id(
    world: World, client: Client
) -> None:
    """KIP-1152."""
    Client(world.ask, "idle").init()

    assert listed(world, transactional_id_pattern="id.*") == [("idle", "Empty")]
    assert listed(world, transactional_id_pattern="id") == []
    assert len(listed(world, transactional_id_pattern="")) == 2

    request = e.list_transactions.ListTransactionsRequest(transactional_id_pattern="(")
    answer = world.ask(apis.LIST_TRANSACTIONS, request)
    assert answer.error_code is ErrorCode.invalid_regular_expression


def test_states_that_there_are_not_are_told(world: World) -> None:
    request = e.list_transactions.ListTransactionsRequest(state_filters=("Ongoing", "Odd"))

    answer = world.ask(apis.LIST_TRANSACTIONS, request)

    assert (answer.unknown_state_filters, answer.transaction_states) == (("Odd",), ())


def test_unknown_state_that_is_named_twice_is_returned_once(world: World) -> None:
    request = e.list_transactions.ListTransactionsRequest(state_filters=("Odd", "", "Odd", ""))

    assert world.ask(apis.LIST_TRANSACTIONS, request).unknown_state_filters == ("Odd", "")


def test_list_without_the_ids_that_are_being_read_is_refused(world: World, client: Client) -> None:
    ctx = world.ctx
    tp = next(each for each in ctx.hosted.partitions if each[0] == TRANSACTIONS_TOPIC)
    begin_loading_transactions(ctx, tp, ctx.hosted.partitions[tp])

    answer = world.ask(apis.LIST_TRANSACTIONS, e.list_transactions.ListTransactionsRequest())

    assert answer.error_code is ErrorCode.coordinator_load_in_progress


def test_open_transaction_is_described_with_its_partitions(world: World, client: Client) -> None:
    found = described(world)

    assert found.error_code is ErrorCode.none
    assert found.transaction_state == "Ongoing"
    assert (found.producer_id, found.producer_epoch) == (client.producer_id, client.epoch)
    assert found.transaction_timeout_ms == TIMEOUT_MS
    assert found.transaction_start_time_ms == world.clock.now_ms()
    assert [(each.topic, each.partitions) for each in found.topics] == [("orders", (0,))]


def test_transaction_that_is_over_has_no_partitions(world: World, client: Client) -> None:
    client.end()

    assert (described(world).transaction_state, described(world).topics) == ("CompleteCommit", ())


def test_prepared_transaction_is_described_with_the_partitions_that_lack_their_marker() -> None:
    cluster = Cluster()
    client = Client(cluster.ask)
    client.init()
    client.add()
    client.add_offsets()
    cluster.deaf = {1}
    client.end()

    found = described(cluster)

    assert found.transaction_state == TransactionState.PREPARE_COMMIT.value
    assert [(each.topic, each.partitions) for each in found.topics] == [("orders", (0,))]


def test_id_that_nobody_has_is_not_found(world: World, client: Client) -> None:
    assert described(world, "stranger").error_code is ErrorCode.transactional_id_not_found
    assert described(world, "").error_code is ErrorCode.invalid_request


def test_fields_of_a_transaction_with_an_error_are_zero(world: World) -> None:
    """As in Kafka, whose schema has no defaults for them."""
    found = described(world, "stranger")

    assert (found.producer_id, found.producer_epoch) == (0, 0)
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (0, 0)


def test_only_the_coordinator_describes() -> None:
    cluster = Cluster()
    other = next(each for each in cluster.replicas.ctx if each != cluster.coordinator())
    request = e.describe_transactions.DescribeTransactionsRequest(transactional_ids=(TXN,))

    answer = cluster.replicas.ask(other, apis.DESCRIBE_TRANSACTIONS, request)

    assert answer.transaction_states[0].error_code is ErrorCode.not_coordinator


def test_producers_of_a_partition_are_described_with_their_open_transactions(
    world: World, client: Client
) -> None:
    (found,) = producers(world).active_producers
    assert (found.producer_id, found.producer_epoch) == (client.producer_id, client.epoch)
    assert (found.last_sequence, found.current_txn_start_offset) == (0, 0)
    assert found.last_timestamp == world.clock.now_ms()
    assert found.coordinator_epoch == -1

    client.end()

    (found,) = producers(world).active_producers
    assert (found.current_txn_start_offset, found.coordinator_epoch) == (-1, 0)


def test_partition_that_is_not_there_is_told(world: World) -> None:
    assert producers(world, 99).error_code is ErrorCode.unknown_topic_or_partition
