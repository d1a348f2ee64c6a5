"""The table of errors and actions, and the waits between tries."""

from __future__ import annotations

from random import Random

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.cluster import Address
from josefine_broker.client.retry import (
    ACTIONS,
    BACKOFF_MS_MAX,
    BACKOFF_MS_MIN,
    Action,
    action_for,
    backoff_ms,
)
from josefine_broker.client.session import Policy, Session


def test_an_error_outside_the_table_is_final() -> None:
    unlisted = set(ErrorCode) - set(ACTIONS)

    assert unlisted
    assert {action_for(code) for code in unlisted} == {Action.FAIL}


def test_every_error_that_is_tried_again_is_retriable_in_kafka() -> None:
    retried = {code for code, action in ACTIONS.items() if action is not Action.SUCCEED}

    assert [code for code in retried if not code.retriable] == []


def test_a_duplicate_batch_counts_as_written() -> None:
    assert action_for(ErrorCode.duplicate_sequence_number) is Action.SUCCEED


def test_backoff_doubles_up_to_its_bound_with_a_fifth_of_jitter() -> None:
    rng = Random(3)
    for attempt in range(1, 40):
        bare_ms = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** (attempt - 1))
        assert 0.8 * bare_ms - 1 <= backoff_ms(attempt, rng) <= 1.2 * bare_ms


@pytest.fixture
def session() -> Session:
    return Session((Address("boot", 1),), Policy(), Random(1))


def test_a_final_error_is_raised_as_it_is(session: Session) -> None:
    error = KafkaError(ErrorCode.message_too_large, "too large")

    with pytest.raises(KafkaError) as raised:
        session.start(0, 30_000, "produce").after(error, 10)

    assert raised.value is error


def test_a_passing_error_ends_with_the_deadline_and_says_what_was_tried(session: Session) -> None:
    session.connected()
    attempts = session.start(0, 100, "offsets")
    error = KafkaError(ErrorCode.leader_not_available, "partition t-0 has no leader now")

    pause = attempts.after(error, 0)
    with pytest.raises(KafkaError) as raised:
        attempts.after(error, 90)

    assert 0 < pause.until_ms < 100
    assert raised.value.code is ErrorCode.leader_not_available
    assert raised.value.message == (
        "offsets: partition t-0 has no leader now, tried 2 times in 0.1 s"
    )


def test_a_client_that_never_reached_a_broker_gives_up_early(session: Session) -> None:
    attempts = session.start(0, 60_000, "metadata")
    error = KafkaError(ErrorCode.network_exception, "cannot reach a broker at boot:1 (refused)")
    late_ms = session.policy.bootstrap_timeout_ms

    with pytest.raises(KafkaError, match=r"^network_exception: cannot reach a broker at boot:1"):
        attempts.after(error, late_ms)


def test_a_client_that_reached_a_broker_once_waits_for_its_deadline(session: Session) -> None:
    session.connected()
    attempts = session.start(0, 60_000, "metadata")
    error = KafkaError(ErrorCode.network_exception, "lost")

    pause = attempts.after(error, session.policy.bootstrap_timeout_ms)

    assert pause.until_ms > session.policy.bootstrap_timeout_ms


def test_an_unknown_topic_is_final_where_nothing_can_make_it_appear(session: Session) -> None:
    error = KafkaError(ErrorCode.unknown_topic_or_partition, "topic 't' does not exist")

    with pytest.raises(KafkaError):
        session.start(0, 60_000, "delete topics", unknown_is_final=True).after(error, 0)
    assert session.start(0, 60_000, "offsets").after(error, 0).until_ms > 0
