"""Metadata while a leader has just been lost: the answer waits for the next one, for a moment."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.api.metadata import LATER_WAIT_MS, LOST_LEADER_WAIT_MS, STARTED_MS
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.entities import metadata
from tests.unit.josefine_broker.api.replicas import Replicas

METADATA = 3
KILLED, SURVIVOR, NEXT = 1, 3, 2


@pytest.fixture
def three_replicas() -> Replicas:
    cluster = Replicas(3)
    cluster.create(replicas=((1, 2, 3),))
    cluster.create("others", replicas=((2, 3),))
    cluster.run()
    return cluster


def ask(
    cluster: Replicas, *topics: str, broker_id: int = SURVIVOR, connected_ms: int | None = None
) -> Any:
    """Of these topics; of all of them when none is named."""
    named = tuple(metadata.MetadataRequestTopic(name=each) for each in topics) or None
    request = metadata.MetadataRequest(topics=named, allow_auto_topic_creation=False)
    return cluster.ask(broker_id, METADATA, request, connected_ms=connected_ms)


def leader_in(answer: Any) -> int:
    if isinstance(answer, Parked):
        assert answer.done
        answer = answer.response
    leaders = {topic.name: topic.partitions[0].leader_id for topic in answer.topics}
    return int(leaders["orders"])


@pytest.mark.parametrize("topics", [("orders",), ("others", "orders"), ()])
def test_lost_leader_is_not_named_before_the_next_one_is_elected(
    three_replicas: Replicas, topics: tuple[str, ...]
) -> None:
    """librdkafka asks at once; given the dead leader, it asks again only after up to a second."""
    three_replicas.kill(KILLED, fenced=False)

    answer = ask(three_replicas, *topics)
    assert isinstance(answer, Parked)
    assert not answer.done
    three_replicas.fence(KILLED)
    three_replicas.lead(NEXT, isr=(2, 3))

    assert leader_in(ask(three_replicas, *topics)) == NEXT


def test_waiting_request_is_answered_when_brokers_and_leaders_change(
    three_replicas: Replicas,
) -> None:
    """In one decision, as the controller makes it."""
    three_replicas.kill(KILLED, fenced=False)
    answer = ask(three_replicas, "orders")

    three_replicas.fence_and_lead(KILLED, NEXT, isr=(2, 3))

    assert leader_in(answer) == NEXT


def test_change_of_another_broker_does_not_end_the_wait(three_replicas: Replicas) -> None:
    three_replicas.kill(KILLED, fenced=False)
    answer = ask(three_replicas, "orders")

    three_replicas.fence(NEXT)

    assert not answer.done


def test_wait_for_the_next_leader_is_bounded(three_replicas: Replicas) -> None:
    three_replicas.kill(KILLED, fenced=False)
    three_replicas.advance(LOST_LEADER_WAIT_MS - 1)
    answer = ask(three_replicas, "orders")
    assert not answer.done

    three_replicas.advance(1)

    assert leader_in(answer) == KILLED
    three_replicas.advance(1)
    assert not isinstance(ask(three_replicas, "orders"), Parked)


def test_leader_that_answers_again_is_named_at_once(three_replicas: Replicas) -> None:
    """Its connection was lost, not the broker."""
    now_ms = three_replicas.clock.elapsed_ms
    fetcher = three_replicas.ctx[SURVIVOR].hosted.fetchers.by_leader[KILLED]
    three_replicas.waiting.clear()
    fetcher.leader_lost(now_ms)
    fetcher.disconnected()
    answer = ask(three_replicas, "orders")
    assert not answer.done

    three_replicas.run()

    assert leader_in(answer) == KILLED
    assert not isinstance(ask(three_replicas, "orders"), Parked)


def test_second_failure_to_connect_does_not_prolong_the_wait(three_replicas: Replicas) -> None:
    three_replicas.kill(KILLED, fenced=False)
    three_replicas.advance(LOST_LEADER_WAIT_MS)
    fetcher = three_replicas.ctx[SURVIVOR].hosted.fetchers.by_leader[KILLED]
    fetcher.leader_lost(three_replicas.clock.elapsed_ms)

    three_replicas.advance(1)

    assert not isinstance(ask(three_replicas, "orders"), Parked)


def test_answer_without_the_lost_leader_does_not_wait(three_replicas: Replicas) -> None:
    three_replicas.kill(KILLED, fenced=False)

    assert not isinstance(ask(three_replicas, "others"), Parked)
    assert not isinstance(ask(three_replicas, "missing"), Parked)


def ask_later(cluster: Replicas, *topics: str, broker_id: int = SURVIVOR) -> Any:
    """By a client that connected long before."""
    connected_ms = cluster.clock.elapsed_ms - STARTED_MS
    return ask(cluster, *topics, broker_id=broker_id, connected_ms=connected_ms)


def test_client_that_loses_a_leader_first_is_given_the_next_one(three_replicas: Replicas) -> None:
    """A killed broker's connections end one after the other: librdkafka asks a survivor whose own
    connection still seems to be there."""
    answer = ask_later(three_replicas, "orders")
    assert not answer.done

    three_replicas.kill(KILLED, fenced=False)
    three_replicas.advance(LATER_WAIT_MS)
    assert not answer.done
    three_replicas.fence_and_lead(KILLED, NEXT, isr=(2, 3))

    assert leader_in(answer) == NEXT


def test_later_answer_ends_its_wait_with_a_change_of_leaders(three_replicas: Replicas) -> None:
    answer = ask_later(three_replicas, "orders")

    three_replicas.fence_and_lead(KILLED, NEXT, isr=(2, 3))

    assert leader_in(answer) == NEXT


def test_later_answer_is_given_after_a_moment_if_nothing_changes(
    three_replicas: Replicas,
) -> None:
    answer = ask_later(three_replicas, "orders")
    three_replicas.advance(LATER_WAIT_MS - 1)
    assert not answer.done

    three_replicas.advance(1)

    assert leader_in(answer) == KILLED


def test_wait_for_a_leader_lost_during_a_later_answer_is_bounded(
    three_replicas: Replicas,
) -> None:
    answer = ask_later(three_replicas, "orders")
    three_replicas.kill(KILLED, fenced=False)

    three_replicas.advance(LOST_LEADER_WAIT_MS - 1)
    assert not answer.done
    three_replicas.advance(1)

    assert leader_in(answer) == KILLED


def test_stopping_broker_gives_a_later_answer_at_once(three_replicas: Replicas) -> None:
    answer = ask_later(three_replicas, "orders")
    three_replicas.kill(KILLED, fenced=False)
    ctx = three_replicas.ctx[SURVIVOR]

    ctx.parked.forget(answer)
    answer.expire(ctx.clock.monotonic_ms())

    assert leader_in(answer) == KILLED


def test_client_that_starts_is_answered_at_once(three_replicas: Replicas) -> None:
    connected_ms = three_replicas.clock.elapsed_ms - STARTED_MS + 1

    assert not isinstance(ask(three_replicas, "orders", connected_ms=connected_ms), Parked)


def test_leader_itself_answers_at_once(three_replicas: Replicas) -> None:
    """A broker knows that it leads."""
    assert not isinstance(ask_later(three_replicas, "orders", broker_id=KILLED), Parked)
