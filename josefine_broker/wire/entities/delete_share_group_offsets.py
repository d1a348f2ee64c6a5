"""DeleteShareGroupOffsets (key 92) in the one shape that handlers see: version 0."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsRequestTopic:
    """DeleteShareGroupOffsetsRequestTopic."""

    topic_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsRequest:
    """DeleteShareGroupOffsetsRequest."""

    group_id: str
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResponseTopic:
    """DeleteShareGroupOffsetsResponseTopic."""

    topic_name: str
    topic_id: UUID | None = None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResponse:
    """DeleteShareGroupOffsetsResponse."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...]
