"""CreatePartitions (key 37) in the one shape that handlers see: version 3."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsAssignment:
    """The brokers of one new partition."""

    broker_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsTopic:
    """A topic and how many partitions it shall have in all."""

    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest:
    """Grow topics."""

    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse:
    """One answer per topic."""

    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsTopicResult, ...]
