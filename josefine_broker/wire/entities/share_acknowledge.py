"""ShareAcknowledge (key 79) in the one shape that handlers see: version 2."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementBatch:
    """AcknowledgementBatch."""

    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgePartition:
    """AcknowledgePartition."""

    partition_index: int
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeTopic:
    """AcknowledgeTopic."""

    topic_id: UUID | None = None
    partitions: tuple[AcknowledgePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeRequest:
    """ShareAcknowledgeRequest."""

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool = False  # since version 2
    topics: tuple[AcknowledgeTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """LeaderIdAndEpoch."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """PartitionData."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeTopicResponse:
    """ShareAcknowledgeTopicResponse."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoint:
    """NodeEndpoint."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeResponse:
    """ShareAcknowledgeResponse."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0  # since version 2
    responses: tuple[ShareAcknowledgeTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
