"""Transactions as their producers see them, asked of a whole broker without sockets."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.operations import Outcome
from josefine_broker.client.transactions import are_open, end_transactions, keep_open, take_ids
from josefine_broker.engine.transactions.values import VERSION_2, TransactionSettings
from josefine_broker.wire import apis
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.transaction_clients import (
    Client,
    transaction_world,
)
from tests.unit.josefine_broker.api.world import World
from tests.unit.josefine_broker.client.driver import unreachable
from tests.unit.josefine_broker.client.operations import run_operation

IDS = ("a", "b", "c")
TIMEOUT_MS = 60_000


world = fixture_of(lambda: transaction_world(*IDS))


def take(world: World, *ids: str, timeout_ms: int = TIMEOUT_MS, answer: Any = None) -> Any:
    return run_operation(world, lambda s, t, d: take_ids(s, ids, timeout_ms, t, d), answer)


def end(world: World, producers: dict[str, ProducerIdentity], *, commit: bool = True) -> Any:
    return run_operation(world, lambda s, t, d: end_transactions(s, producers, commit, t, d))


def opened(world: World, *ids: str) -> dict[str, ProducerIdentity]:
    """Producers of these ids, each with a transaction open."""
    producers = {each: outcome.result for each, outcome in take(world, *ids).items()}
    for each, who in producers.items():
        client = Client(world.ask, each, speaks=VERSION_2)
        client.producer_id, client.epoch = who.producer_id, who.producer_epoch
        assert client.produce() == ErrorCode.none
    return producers


def codes(outcomes: dict[str, Outcome]) -> dict[str, ErrorCode]:
    return {
        each: ErrorCode.none if one.error is None else one.error.code
        for each, one in outcomes.items()
    }


def test_ends_of_many_ids_are_asked_at_once_and_may_be_asked_again(world: World) -> None:
    producers = opened(world, *IDS)

    first, again = end(world, producers), end(world, producers)

    assert codes(first) == codes(again) == dict.fromkeys(IDS, ErrorCode.none)
    assert first == again
    assert all(
        first[each].result.producer_epoch == producers[each].producer_epoch + 1 for each in IDS
    )


def test_who_takes_an_id_fences_its_producer_and_aborts_what_it_left(world: World) -> None:
    producers = opened(world, "a", "b")
    assert run_operation(world, lambda s, t, d: are_open(s, producers, t, d)) == {
        "a": True,
        "b": True,
    }

    taken = take(world, "a")

    assert codes(taken) == {"a": ErrorCode.none}
    assert run_operation(world, lambda s, t, d: are_open(s, producers, t, d)) == {
        "a": False,
        "b": True,
    }
    assert codes(end(world, producers)) == {
        "a": ErrorCode.producer_fenced,
        "b": ErrorCode.none,
    }


def test_an_end_that_came_otherwise_is_told_for_its_id_alone(world: World) -> None:
    producers = opened(world, "a", "b")
    end(world, {"a": producers["a"]}, commit=False)

    found = codes(end(world, producers))

    assert found == {"a": ErrorCode.invalid_txn_state, "b": ErrorCode.none}


def test_a_timeout_that_is_too_long_is_told(world: World) -> None:
    found = codes(take(world, "a", timeout_ms=10**9))

    assert found == {"a": ErrorCode.invalid_transaction_timeout}


def test_a_coordinator_that_moved_or_is_away_is_looked_for_again(world: World) -> None:
    troubles = [unreachable(), "moved"]

    def answer(call: Any) -> Any:
        told = world.ask(call.api_key, call.request)
        if call.api_key != apis.INIT_PRODUCER_ID or not troubles:
            return told
        trouble = troubles.pop()
        if trouble != "moved":
            return trouble
        return type(told)(error_code=ErrorCode.not_coordinator, producer_epoch=-1)

    found = take(world, "a", answer=answer)

    assert codes(found) == {"a": ErrorCode.none}
    assert troubles == []


def test_an_answer_that_never_comes_is_an_error_when_its_time_is_over(world: World) -> None:
    def answer(call: Any) -> Any:
        if call.api_key == apis.END_TXN:
            return unreachable()
        return world.ask(call.api_key, call.request)

    producers = opened(world, "a")

    with pytest.raises(KafkaError, match=r"ends of transactions: .*tried"):
        run_operation(world, lambda s, t, d: end_transactions(s, producers, True, t, d), answer)


def test_what_is_open_is_ended_by_who_keeps_it(world: World) -> None:
    """KIP-939."""
    coordinator = world.ctx.clients.transactions.coordinator
    coordinator.settings = TransactionSettings(two_phase_enable=True)
    wrote = opened(world, "a")["a"]

    kept = run_operation(world, lambda s, t, d: keep_open(s, "a", t, d))

    assert kept.wrote == wrote
    assert codes(end(world, {"a": wrote})) == {"a": ErrorCode.producer_fenced}
    assert codes(end(world, {"a": kept.ends})) == {"a": ErrorCode.none}
    assert run_operation(world, lambda s, t, d: keep_open(s, "a", t, d)).wrote is None


def test_keeping_is_refused_where_the_broker_serves_no_two_phase_commits(world: World) -> None:
    with pytest.raises(KafkaError) as refused:
        run_operation(world, lambda s, t, d: keep_open(s, "a", t, d))
    assert refused.value.code is ErrorCode.transactional_id_authorization_failed

    def two_phase(s: Any, t: int, d: int) -> Any:
        return take_ids(s, ("a",), TIMEOUT_MS, t, d, two_phase=True)

    assert codes(run_operation(world, two_phase)) == {
        "a": ErrorCode.transactional_id_authorization_failed
    }
