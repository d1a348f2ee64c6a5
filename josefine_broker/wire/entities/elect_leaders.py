"""ElectLeaders (key 43) in the one shape that handlers see: version 2."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    """Elect preferred (type 0) or unclean leaders (type 1, KIP-460); None: of all partitions."""

    election_type: int = 0  # since version 1
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout_ms: int = 60000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What became of one partition."""

    partition_id: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaElectionResult:
    """What became of one topic."""

    topic: str
    partition_result: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    """One answer per partition."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none  # since version 1
    replica_election_results: tuple[ReplicaElectionResult, ...]
