"""DeleteTopics (key 20) in the one shape that handlers see: version 6."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicState:
    """A topic by name or by id, never both."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    """Delete topics."""

    topics: tuple[DeleteTopicState, ...]  # since version 6
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTopicResult:
    """What became of one topic."""

    name: str | None = None
    topic_id: UUID | None = None  # since version 6
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None  # since version 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    """One answer per topic."""

    throttle_time_ms: int = 0
    responses: tuple[DeletableTopicResult, ...]
