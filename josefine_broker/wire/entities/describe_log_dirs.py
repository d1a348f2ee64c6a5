"""DescribeLogDirs (key 35) in the one shape that handlers see: version 5."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribableLogDirTopic:
    """Partitions of one topic to describe."""

    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsRequest:
    """Ask for sizes on disk; null topics mean all (KIP-113)."""

    topics: tuple[DescribableLogDirTopic, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsPartition:
    """The size of one replica in bytes."""

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsTopic:
    """Replicas of one topic."""

    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResult:
    """What one data directory holds."""

    error_code: ErrorCode = ErrorCode.none
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int = -1  # since version 4
    usable_bytes: int = -1  # since version 4
    is_cordoned: bool = False  # since version 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponse:
    """One answer per data directory."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none  # since version 3
    results: tuple[DescribeLogDirsResult, ...]
