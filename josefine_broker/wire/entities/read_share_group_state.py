"""ReadShareGroupState (key 84) in the one shape that handlers see: version 0."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """PartitionData."""

    partition: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateData:
    """ReadStateData."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateRequest:
    """ReadShareGroupStateRequest."""

    group_id: str
    topics: tuple[ReadStateData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """StateBatch."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """PartitionResult."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateResult:
    """ReadStateResult."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateResponse:
    """ReadShareGroupStateResponse."""

    results: tuple[ReadStateResult, ...]
