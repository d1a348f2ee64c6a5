"""ListPartitionReassignments (key 46) in the one shape that handlers see: version 0."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    """Ask what is on the move; None: everything."""

    timeout_ms: int = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingPartitionReassignment:
    """One partition on the move."""

    partition_index: int
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingTopicReassignment:
    """Partitions on the move of one topic."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    """What is on the move."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...]
