"""Metadata (key 3) in the one shape that handlers see: version 13."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequestTopic:
    """A topic by name, or by id with a null name."""

    topic_id: UUID | None = None  # since version 10
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Ask about topics: null means all, none means none."""

    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool = True  # since version 4
    include_cluster_authorized_operations: bool = False  # versions 8 to 10
    include_topic_authorized_operations: bool = False  # since version 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponseBroker:
    """Where one broker is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None  # since version 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponsePartition:
    """One partition's leader and replicas."""

    error_code: ErrorCode = ErrorCode.none
    partition_index: int
    leader_id: int
    leader_epoch: int = -1  # since version 7
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()  # since version 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponseTopic:
    """One topic, or its error."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None = None
    topic_id: UUID | None = None  # since version 10
    is_internal: bool = False  # since version 1
    partitions: tuple[MetadataResponsePartition, ...]
    topic_authorized_operations: int = -2147483648  # since version 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """The cluster as clients see it."""

    throttle_time_ms: int = 0  # since version 3
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None = None  # since version 2
    controller_id: int = -1  # since version 1
    topics: tuple[MetadataResponseTopic, ...]
    cluster_authorized_operations: int = -2147483648  # versions 8 to 10
    error_code: ErrorCode = ErrorCode.none  # since version 13
