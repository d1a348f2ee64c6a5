"""DeleteRecords (key 21) in the one shape that handlers see: version 2."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartition:
    """A partition and its new first offset; -1 means the high watermark (KIP-107)."""

    partition_index: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    """Forget records before an offset."""

    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    """The low watermark of one partition, or its error."""

    partition_index: int
    low_watermark: int
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsTopicResult:
    """Partitions of one topic."""

    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...]
