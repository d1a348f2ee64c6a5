"""InitializeShareGroupState (key 83) in the one shape that handlers see: version 0."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """PartitionData."""

    partition: int
    state_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeStateData:
    """InitializeStateData."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeShareGroupStateRequest:
    """InitializeShareGroupStateRequest."""

    group_id: str
    topics: tuple[InitializeStateData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """PartitionResult."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeStateResult:
    """InitializeStateResult."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeShareGroupStateResponse:
    """InitializeShareGroupStateResponse."""

    results: tuple[InitializeStateResult, ...]
