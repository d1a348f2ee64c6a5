"""OffsetFetch (key 9) in the one shape that handlers see: version 10."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopics:
    """A topic by name, since version 10 by id."""

    name: str = ""  # until version 9
    topic_id: UUID | None = None  # since version 10
    partition_indexes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    """One group; null topics mean all that it has committed."""

    group_id: str
    member_id: str | None = None  # since version 9
    member_epoch: int = -1  # since version 9
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """Ask how far groups have read; until version 7 exactly one group."""

    groups: tuple[OffsetFetchRequestGroup, ...]  # since version 8
    require_stable: bool = False  # since version 7


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponsePartitions:
    """A committed offset; -1 when there is none."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopics:
    """A topic by name, since version 10 by id."""

    name: str = ""  # until version 9
    topic_id: UUID | None = None  # since version 10
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    """One group's offsets, or its error; until version 7 its id is empty when read."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """One answer per group."""

    throttle_time_ms: int = 0  # since version 3
    groups: tuple[OffsetFetchResponseGroup, ...]  # since version 8
