"""ReadShareGroupStateSummary (key 87) in the one shape that handlers see: version 1."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """PartitionData."""

    partition: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateSummaryData:
    """ReadStateSummaryData."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateSummaryRequest:
    """ReadShareGroupStateSummaryRequest."""

    group_id: str
    topics: tuple[ReadStateSummaryData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """PartitionResult."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1  # since version 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateSummaryResult:
    """ReadStateSummaryResult."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateSummaryResponse:
    """ReadShareGroupStateSummaryResponse."""

    results: tuple[ReadStateSummaryResult, ...]
