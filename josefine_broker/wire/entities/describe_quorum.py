"""DescribeQuorum (key 55) in the one shape that handlers see: version 2."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """A partition of the metadata topic."""

    partition_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """The metadata topic."""

    topic_name: str
    partitions: tuple[PartitionRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequest:
    """Ask who decides on metadata (KIP-595)."""

    topics: tuple[TopicRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """How far one member is; times are -1 where nobody knows them."""

    replica_id: int
    replica_directory_id: UUID | None = None  # since version 2
    log_end_offset: int
    last_fetch_timestamp: int = -1  # since version 1
    last_caught_up_timestamp: int = -1  # since version 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    """One partition: its leader and members."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None  # since version 2
    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData:
    """The metadata topic."""

    topic_name: str
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where a member listens."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A member and its listeners (KIP-853)."""

    node_id: int
    listeners: tuple[Listener, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse:
    """The quorum as one broker knows it."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None  # since version 2
    topics: tuple[TopicData, ...]
    nodes: tuple[Node, ...] = ()  # since version 2
