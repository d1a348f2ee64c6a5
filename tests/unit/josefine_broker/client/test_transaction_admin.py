"""Transactions as an operator sees them, asked of a whole broker without sockets."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import transaction_admin
from josefine_broker.client.transaction_admin import OpenTransaction
from josefine_broker.engine.metadata.image import (
    JOSEFINE_VERSION,
    TRANSACTIONS_LEVEL,
    FeatureRange,
)
from josefine_broker.wire import apis
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.transaction_clients import (
    TIMEOUT_MS,
    TXN,
    Client,
    transaction_world,
)
from tests.unit.josefine_broker.api.world import World
from tests.unit.josefine_broker.client.driver import Driver
from tests.unit.josefine_broker.client.operations import run_operation

ORDERS = TopicPartition("orders", 0)


# Of a level at which transactions may still hang: nobody verifies them.
world = fixture_of(
    lambda: transaction_world(features=(FeatureRange(JOSEFINE_VERSION, 1, TRANSACTIONS_LEVEL),))
)


@pytest.fixture
def client(world: World) -> Client:
    """It has a transaction open in `orders`."""
    found = Client(world.ask)
    found.init()
    found.add()
    found.produce()
    return found


@pytest.fixture
def stray(world: World) -> Client:
    """Its batch came behind the end of its transaction."""
    found = Client(world.ask, "stray")
    found.init()
    found.add()
    found.end()
    assert found.produce() == ErrorCode.none
    return found


def hanging(world: World, topic: str | None = None) -> list[OpenTransaction]:
    topics = None if topic is None else (topic,)
    found: list[OpenTransaction] = run_operation(
        world, lambda s, t, d: transaction_admin.hanging_transactions(s, topics, t, d)
    )
    return found


def listed(world: World, *states: str) -> list[tuple[str, str]]:
    found = run_operation(
        world, lambda s, t, d: transaction_admin.list_transactions(s, states, -1, t, d)
    )
    return [(each.transactional_id, each.state) for each in found]


def described(world: World, transactional_id: str) -> Any:
    return run_operation(
        world, lambda s, t, d: transaction_admin.describe_transaction(s, transactional_id, t, d)
    )


def test_transactions_are_listed_by_name_and_state(
    world: World, client: Client, stray: Client
) -> None:
    assert listed(world) == [("stray", "CompleteCommit"), (TXN, "Ongoing")]
    assert listed(world, "Ongoing") == [(TXN, "Ongoing")]
    with pytest.raises(KafkaError, match="unknown transaction state 'Odd'"):
        listed(world, "Odd")


def test_transaction_is_described_with_its_partitions(world: World, client: Client) -> None:
    found = described(world, TXN)

    assert (found.state, found.timeout_ms) == ("Ongoing", TIMEOUT_MS)
    assert (found.producer_id, found.producer_epoch) == (client.producer_id, client.epoch)
    assert found.partitions == (ORDERS,)
    with pytest.raises(KafkaError, match="transactional id 'odd' is unknown"):
        described(world, "odd")


def test_transaction_hangs_that_its_coordinator_does_not_know(
    world: World, client: Client, stray: Client
) -> None:
    client.add_offsets()
    client.commit_offset(5)

    (found,) = hanging(world)

    assert (found.tp, found.producer_id) == (ORDERS, stray.producer_id)
    assert hanging(world, "orders") == [found]
    with pytest.raises(KafkaError, match="topic 'odd' does not exist"):
        hanging(world, "odd")


def test_transaction_that_hangs_is_ended_and_readers_go_on(world: World, stray: Client) -> None:
    partition = world.ctx.hosted.partitions[ORDERS].partition
    assert partition.last_stable_offset < partition.high_watermark
    (found,) = hanging(world)

    run_operation(world, lambda s, t, d: transaction_admin.abort_transaction(s, found, t, d))

    assert hanging(world) == []
    assert partition.last_stable_offset == partition.high_watermark


def test_transaction_that_ends_between_two_looks_does_not_hang(
    world: World, client: Client
) -> None:
    """When it was looked for in the partition it was open, when its coordinator was asked it was
    over."""
    looks = 0

    def answer(call: Any) -> Any:
        nonlocal looks
        response = world.ask(call.api_key, call.request)
        if call.api_key == apis.DESCRIBE_PRODUCERS:
            looks += 1
            if looks == 1:
                client.end()
        return response

    driver = Driver(answer)
    found = driver.run(
        lambda t, d: transaction_admin.hanging_transactions(driver.session, None, t, d)
    )

    assert (found, looks) == ([], 2)
