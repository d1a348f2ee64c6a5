"""TxnOffsetCommit (key 28) in the one shape that handlers see: version 6."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition:
    """The offset that the group will read next."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1  # since version 2
    committed_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    """A topic by name, since version 6 by id (KIP-1319)."""

    name: str = ""  # until version 5
    topic_id: UUID | None = None  # since version 6
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """Commit a group's offsets in a transaction; since version 3 a member identifies itself
    (KIP-447)."""

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int = -1  # since version 3
    member_id: str = ""  # since version 3
    group_instance_id: str | None = None  # since version 3
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    """What became of one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    """A topic by name, since version 6 by id (KIP-1319)."""

    name: str = ""  # until version 5
    topic_id: UUID | None = None  # since version 6
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...]
