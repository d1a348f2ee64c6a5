"""ListOffsets (key 2) in the one shape that handlers see: version 11."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition:
    """A partition and a time: -1 latest, -2 earliest, -3 the largest timestamp (KIP-734)."""

    partition_index: int
    current_leader_epoch: int = -1  # since version 4
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    """Ask for offsets by time."""

    replica_id: int
    isolation_level: int = 0  # since version 2
    topics: tuple[ListOffsetsTopic, ...]
    timeout_ms: int = 0  # since version 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    """The first offset at or after that time; -1 when there is none."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1  # since version 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    """Partitions of one topic."""

    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0  # since version 2
    topics: tuple[ListOffsetsTopicResponse, ...]
