"""ShareFetch (key 78) in the one shape that handlers see: version 2."""

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
class FetchPartition:
    """FetchPartition."""

    partition_index: int
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    """FetchTopic."""

    topic_id: UUID | None = None
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic:
    """ForgottenTopic."""

    topic_id: UUID | None = None
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchRequest:
    """ShareFetchRequest."""

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int = 2147483647
    max_records: int
    batch_size: int
    share_acquire_mode: int = 0  # since version 2
    is_renew_ack: bool = False  # since version 2
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """LeaderIdAndEpoch."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquiredRecords:
    """AcquiredRecords."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """PartitionData."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    acknowledge_error_code: int
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch
    records: bytes | None
    acquired_records: tuple[AcquiredRecords, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchableTopicResponse:
    """ShareFetchableTopicResponse."""

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
class ShareFetchResponse:
    """ShareFetchResponse."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    acquisition_lock_timeout_ms: int
    responses: tuple[ShareFetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
