"""The table of errors and actions, and the waits between tries."""

from __future__ import annotations

from random import Random

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.cluster import Address
from josefine_broker.client.retry import (
    BACKOFF_MS_MAX,
    BACKOFF_MS_MIN,
    Action,
    action_for,
    backoff_ms,
)
from josefine_broker.client.session import Policy, Session

# Written out from Kafka's errors and what its own clients do with them, not from our table.

THE_BROKER_DID_IT = {"none", "duplicate_sequence_number"}
"""A batch that is there already was written by the try whose answer was lost (KIP-98)."""

SAME_BROKER_AGAIN = {
    "request_timed_out",
    "not_enough_replicas",
    # Written, but not to enough replicas: no success until it is. Sent again, it is a duplicate.
    "not_enough_replicas_after_append",
    "offset_not_available",  # a new leader that does not know its high watermark yet (KIP-207)
    "coordinator_load_in_progress",
    "unstable_offset_commit",  # KIP-447
    "concurrent_transactions",
    "throttling_quota_exceeded",  # KIP-599
}

ANOTHER_BROKER_MAY_LEAD = {
    "unknown_topic_or_partition",
    "unknown_topic_id",
    "inconsistent_topic_id",
    "leader_not_available",
    "not_leader_or_follower",
    "replica_not_available",
    "listener_not_found",
    "fenced_leader_epoch",
    "unknown_leader_epoch",
    "kafka_storage_error",  # its disk failed: the controller names another leader
    "network_exception",
    "not_controller",
}

ANOTHER_BROKER_MAY_COORDINATE = {"not_coordinator", "coordinator_not_available"}

RETRIABLE_IN_KAFKA_AND_FINAL_HERE = {
    "corrupt_message",  # what we sent or what is stored: the same bytes come again
    "fetch_session_id_not_found",  # our fetches carry no session
    "invalid_fetch_session_epoch",
    "fetch_session_topic_id_error",
    "preferred_leader_not_available",  # answers to a person's command: told, not repeated
    "eligible_leaders_not_available",
    "election_not_needed",
    "share_session_not_found",  # no share groups
    "invalid_share_session_epoch",
    "share_session_limit_reached",
}


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (Action.SUCCEED, THE_BROKER_DID_IT),
        (Action.RETRY, SAME_BROKER_AGAIN),
        (Action.REFRESH, ANOTHER_BROKER_MAY_LEAD),
        (Action.COORDINATE, ANOTHER_BROKER_MAY_COORDINATE),
    ],
)
def test_each_error_has_the_action_that_kafkas_clients_take(
    action: Action, names: set[str]
) -> None:
    assert {code.name for code in ErrorCode if action_for(code) is action} == names


def test_an_error_that_kafka_calls_final_is_final_and_what_else_is_has_its_reason() -> None:
    final = {code for code in ErrorCode if action_for(code) is Action.FAIL}
    retriable = {code.name for code in ErrorCode if code.retriable}

    assert {code.name for code in final if code.retriable} == RETRIABLE_IN_KAFKA_AND_FINAL_HERE
    assert (retriable - RETRIABLE_IN_KAFKA_AND_FINAL_HERE) == (
        SAME_BROKER_AGAIN | ANOTHER_BROKER_MAY_LEAD | ANOTHER_BROKER_MAY_COORDINATE
    )


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
