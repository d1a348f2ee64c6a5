"""AlterPartitionReassignments (key 45) in the one shape that handlers see: version 1."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartition:
    """The brokers a partition shall move to; None cancels the move under way."""

    partition_index: int
    replicas: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    """Move partitions (KIP-455)."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True  # since version 1
    topics: tuple[ReassignableTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartitionResponse:
    """What became of one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopicResponse:
    """What became of one topic."""

    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True  # since version 1
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...]
