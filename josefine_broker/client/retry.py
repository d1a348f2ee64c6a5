"""The retry table: the action for each retriable error.

An error outside the table is final: it is raised to the caller with its code.
"""

from enum import Enum
from random import Random

from josefine_broker.base.errors import ErrorCode, KafkaError


class Action(Enum):
    """The action that an error requires."""

    SUCCEED = "succeed"  # the request has taken effect already
    RETRY = "retry"  # the same request to the same broker
    REFRESH = "refresh"  # refresh metadata first: the leader may have changed
    COORDINATE = "coordinate"  # look up the group's coordinator again first
    FAIL = "fail"  # the caller must decide


ACTIONS: dict[ErrorCode, Action] = {
    ErrorCode.none: Action.SUCCEED,
    # A batch that is in the log already, sent again after a lost answer (KIP-98).
    ErrorCode.duplicate_sequence_number: Action.SUCCEED,
    ErrorCode.request_timed_out: Action.RETRY,
    ErrorCode.not_enough_replicas: Action.RETRY,
    ErrorCode.not_enough_replicas_after_append: Action.RETRY,
    ErrorCode.offset_not_available: Action.RETRY,
    ErrorCode.coordinator_load_in_progress: Action.RETRY,
    ErrorCode.unstable_offset_commit: Action.RETRY,
    ErrorCode.concurrent_transactions: Action.RETRY,
    ErrorCode.throttling_quota_exceeded: Action.RETRY,
    ErrorCode.unknown_topic_or_partition: Action.REFRESH,
    ErrorCode.unknown_topic_id: Action.REFRESH,
    ErrorCode.inconsistent_topic_id: Action.REFRESH,
    ErrorCode.leader_not_available: Action.REFRESH,
    ErrorCode.not_leader_or_follower: Action.REFRESH,
    ErrorCode.replica_not_available: Action.REFRESH,
    ErrorCode.listener_not_found: Action.REFRESH,
    ErrorCode.fenced_leader_epoch: Action.REFRESH,
    ErrorCode.unknown_leader_epoch: Action.REFRESH,
    ErrorCode.kafka_storage_error: Action.REFRESH,
    ErrorCode.network_exception: Action.REFRESH,
    ErrorCode.not_controller: Action.REFRESH,
    ErrorCode.not_coordinator: Action.COORDINATE,
    ErrorCode.coordinator_not_available: Action.COORDINATE,
}

UNHEARD_TRIES_MAX = 6
"""Connections in a row that a broker closes at the first request: a broker that stops does that
once, a listener that wants a login always."""


class Unheard(KafkaError):
    """A connection without a login that the broker greeted and closed at its first request."""

    def __init__(self, address: object) -> None:
        super().__init__(
            ErrorCode.network_exception,
            f"{address} closes the connection at its first request, as a listener does that wants "
            "a login: set security.protocol to SASL_SSL or SASL_PLAINTEXT, and sasl.mechanism",
        )


BACKOFF_MS_MIN = 20
BACKOFF_MS_MAX = 1_000
"""Kafka's clients wait 100 ms to 1 s; the first retries are sooner because most errors of a single
broker are over in tens of milliseconds."""


def action_for(code: ErrorCode) -> Action:
    """The action for an error code; FAIL for all that the table does not list."""
    return ACTIONS.get(code, Action.FAIL)


def backoff_ms(attempt: int, rng: Random) -> int:
    """Wait before retry `attempt` (1 is the first): doubled each time, 20 % jitter (KIP-580)."""
    wait_ms = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** min(attempt - 1, 10))
    return int(wait_ms * rng.uniform(0.8, 1.2))
