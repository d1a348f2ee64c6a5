"""DeleteShareGroupState (key 86) in the one shape that handlers see: version 0."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """PartitionData."""

    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStateData:
    """DeleteStateData."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupStateRequest:
    """DeleteShareGroupStateRequest."""

    group_id: str
    topics: tuple[DeleteStateData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """PartitionResult."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStateResult:
    """DeleteStateResult."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupStateResponse:
    """DeleteShareGroupStateResponse."""

    results: tuple[DeleteStateResult, ...]
