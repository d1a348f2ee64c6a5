"""DescribeTransactions (key 65) in the one shape that handlers see: version 0."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """Ask what these transactional ids are doing."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """One transactional id, or its error. Of a prepared transaction the partitions are those that
    lack their marker."""

    error_code: ErrorCode = ErrorCode.none
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: int = -1
    transaction_start_time_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    topics: tuple[TopicData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """One answer per id."""

    throttle_time_ms: int = 0
    transaction_states: tuple[TransactionState, ...]
