"""WriteShareGroupState (key 85) in the one shape that handlers see: version 1."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """StateBatch."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """PartitionData."""

    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1  # since version 1
    state_batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStateData:
    """WriteStateData."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShareGroupStateRequest:
    """WriteShareGroupStateRequest."""

    group_id: str
    topics: tuple[WriteStateData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """PartitionResult."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStateResult:
    """WriteStateResult."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShareGroupStateResponse:
    """WriteShareGroupStateResponse."""

    results: tuple[WriteStateResult, ...]
