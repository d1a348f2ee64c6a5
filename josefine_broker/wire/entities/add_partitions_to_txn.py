"""AddPartitionsToTxn (key 24) in the one shape that handlers see: version 3."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """A producer is about to write to these partitions in its transaction."""

    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    """What became of one partition."""

    partition_index: int
    partition_error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    """Partitions of one topic."""

    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...]
