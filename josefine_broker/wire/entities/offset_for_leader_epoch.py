"""OffsetForLeaderEpoch (key 23) in the one shape that handlers see: version 4."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderPartition:
    """A partition and an epoch (KIP-101, KIP-320)."""

    partition: int
    current_leader_epoch: int = -1
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopic:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    """Ask where leader epochs ended; replica -2 is a debugging client."""

    replica_id: int = -2  # since version 3
    topics: tuple[OffsetForLeaderTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset:
    """The largest epoch up to the one asked for, and its end offset."""

    error_code: ErrorCode = ErrorCode.none
    partition: int
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopicResult:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[EpochEndOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0
    topics: tuple[OffsetForLeaderTopicResult, ...]
