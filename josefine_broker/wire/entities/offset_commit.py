"""OffsetCommit (key 8) in the one shape that handlers see: version 10."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    """The offset that the group will read next."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1  # since version 6
    committed_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """A topic by name, since version 10 by id."""

    name: str = ""  # until version 9
    topic_id: UUID | None = None  # since version 10
    partitions: tuple[OffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Commit the offsets of a group; generation -1 means without membership. Versions 2 to 4
    may set the retention; -1: the broker's retention."""

    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str
    retention_time_ms: int = -1  # until version 4
    group_instance_id: str | None = None  # since version 7
    topics: tuple[OffsetCommitRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    """What became of one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """A topic by name, since version 10 by id."""

    name: str = ""  # until version 9
    topic_id: UUID | None = None  # since version 10
    partitions: tuple[OffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0  # since version 3
    topics: tuple[OffsetCommitResponseTopic, ...]
