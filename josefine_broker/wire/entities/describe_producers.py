"""DescribeProducers (key 61) in the one shape that handlers see: version 0."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """Partitions of one topic."""

    name: str
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    """Ask who writes to these partitions."""

    topics: tuple[TopicRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A producer that the partition remembers; -1 where it has no such thing."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int
    current_txn_start_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResponse:
    """One partition, or its error."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResponse:
    """Partitions of one topic."""

    name: str
    partitions: tuple[PartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0
    topics: tuple[TopicResponse, ...]
