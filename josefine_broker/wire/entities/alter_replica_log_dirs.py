"""AlterReplicaLogDirs (key 34) in the one shape that handlers see: version 2."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDir:
    """Where those are to be moved."""

    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsRequest:
    """Move replicas of the broker that is asked (KIP-113)."""

    dirs: tuple[AlterReplicaLogDir, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirPartitionResult:
    """What became of one."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirTopicResult:
    """Those of one topic."""

    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...]
