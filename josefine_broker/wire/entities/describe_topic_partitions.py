"""DescribeTopicPartitions (key 75) in the one shape that handlers see: version 0."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """A topic by name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where the next page begins (KIP-966)."""

    topic_name: str
    partition_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsRequest:
    """Ask for metadata page by page (KIP-966)."""

    topics: tuple[TopicRequest, ...]
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
    """One partition's leader and replicas.

    The two lists of KIP-966 may be null on the wire, but Java's admin client fails on null: a
    broker that keeps none sends them empty, as Kafka does.
    """

    error_code: ErrorCode = ErrorCode.none
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = ()
    last_known_elr: tuple[int, ...] | None = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    """One topic, or a part of its partitions."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None = None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
    topic_authorized_operations: int = -2147483648


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponse:
    """One page of topics."""

    throttle_time_ms: int = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: Cursor | None = None
