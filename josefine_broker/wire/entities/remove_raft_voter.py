"""RemoveRaftVoter (key 81) in the one shape that handlers see: version 0."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRaftVoterRequest:
    """A broker votes no more (KIP-853). Brokers have no directory ids: that field is not read."""

    cluster_id: str | None = None
    voter_id: int
    voter_directory_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRaftVoterResponse:
    """Whether its vote is being taken away."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
