"""InitProducerId v6 (KIP-939) through the whole broker: a prepared transaction is ended by the next
process, and its records are there for read_committed; nobody adds to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.image import TRANSACTION_VERSION
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.values import VERSION_2, TransactionSettings
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.transaction_clients import TXN, Client, find, stable
from tests.unit.josefine_broker.api.world import World

ALLOWED = TransactionSettings(two_phase_enable=True)


@pytest.fixture
def two_phase_world() -> World:
    found = World()
    found.create("orders")
    find(found.ask, TXN, 1)
    found.ctx.clients.transactions.coordinator.settings = ALLOWED
    return found


def take(client: Client, *, keeps: bool = False) -> Any:
    request = e.init_producer_id.InitProducerIdRequest(
        transactional_id=TXN,
        transaction_timeout_ms=2**31 - 1,
        enable2_pc=True,
        keep_prepared_txn=keeps,
    )
    answer = client.ask(apis.INIT_PRODUCER_ID, request)
    if answer.error_code is ErrorCode.none:
        client.producer_id, client.epoch = answer.producer_id, answer.producer_epoch
        client.sequence = 0
    return answer


def state(world: World) -> TransactionState:
    view = world.ctx.clients.transactions.coordinator.view(TXN)
    assert view is not None
    return view.record.state


@pytest.mark.parametrize("is_commit", [True, False])
def test_prepared_transaction_is_ended_by_the_next_process(
    two_phase_world: World, is_commit: bool
) -> None:
    wrote, ends = (
        Client(two_phase_world.ask, speaks=VERSION_2),
        Client(two_phase_world.ask, speaks=VERSION_2),
    )
    assert take(wrote).error_code is ErrorCode.none
    assert wrote.produce(b"prepared") == ErrorCode.none

    answer = take(ends, keeps=True)

    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (
        wrote.producer_id,
        wrote.epoch,
    )
    assert stable(two_phase_world.ctx) == 0, "nobody has decided"
    assert ends.end(is_commit=is_commit) is ErrorCode.none
    assert stable(two_phase_world.ctx) == 2, "the record and its marker"
    transactions = two_phase_world.ctx.hosted.partitions[
        "orders", 0
    ].partition.producers.transactions
    assert transactions.has_aborted is not is_commit
    assert wrote.produce(b"late") == ErrorCode.invalid_producer_epoch
    assert ends.produce(b"next") == ErrorCode.none
    assert ends.end() is ErrorCode.none
    assert state(two_phase_world) is TransactionState.COMPLETE_COMMIT


def test_nobody_writes_into_what_is_kept(two_phase_world: World) -> None:
    wrote, ends = (
        Client(two_phase_world.ask, speaks=VERSION_2),
        Client(two_phase_world.ask, speaks=VERSION_2),
    )
    take(wrote)
    assert wrote.produce() == ErrorCode.none
    take(ends, keeps=True)

    assert ends.produce() != ErrorCode.none
    assert wrote.end() is ErrorCode.producer_fenced

    assert ends.end() is ErrorCode.none
    assert stable(two_phase_world.ctx) == 2


def test_nothing_prepared_is_told_as_nobody(two_phase_world: World) -> None:
    answer = take(Client(two_phase_world.ask), keeps=True)

    assert answer.error_code is ErrorCode.none
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)


def test_broker_that_does_not_allow_it_says_so(two_phase_world: World) -> None:
    two_phase_world.ctx.clients.transactions.coordinator.settings = TransactionSettings()

    answer = take(Client(two_phase_world.ask))

    assert answer.error_code is ErrorCode.transactional_id_authorization_failed


def test_cluster_that_may_have_brokers_of_before_does_not_begin_with_it(
    two_phase_world: World,
) -> None:
    """They would not know who is to end what is kept."""
    features = {**two_phase_world.ctx.image.features, TRANSACTION_VERSION: 0}
    two_phase_world.ctx.image = replace(two_phase_world.ctx.image, features=features)

    assert take(Client(two_phase_world.ask)).error_code is ErrorCode.unsupported_version
