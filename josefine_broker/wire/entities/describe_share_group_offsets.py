"""DescribeShareGroupOffsets (key 90) in the one shape that handlers see: version 1."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequestTopic:
    """DescribeShareGroupOffsetsRequestTopic."""

    topic_name: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequestGroup:
    """DescribeShareGroupOffsetsRequestGroup."""

    group_id: str
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequest:
    """DescribeShareGroupOffsetsRequest."""

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponsePartition:
    """DescribeShareGroupOffsetsResponsePartition."""

    partition_index: int
    start_offset: int
    leader_epoch: int
    lag: int = -1  # since version 1
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponseTopic:
    """DescribeShareGroupOffsetsResponseTopic."""

    topic_name: str
    topic_id: UUID | None = None
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponseGroup:
    """DescribeShareGroupOffsetsResponseGroup."""

    group_id: str
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...]
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponse:
    """DescribeShareGroupOffsetsResponse."""

    throttle_time_ms: int = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]
