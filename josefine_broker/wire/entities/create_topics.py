"""CreateTopics (key 19) in the one shape that handlers see: version 7."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableReplicaAssignment:
    """The brokers of one partition, chosen by the client."""

    partition_index: int
    broker_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfig:
    """One configuration of a new topic; null means the default."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopic:
    """A topic to create; -1 partitions or replicas mean the broker's default (KIP-464)."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    """Create topics, or only validate the request."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: int = 60000
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfigs:
    """One effective configuration of a created topic (KIP-525)."""

    name: str
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicResult:
    """What became of one topic."""

    name: str
    topic_id: UUID | None = None  # since version 7
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topic_config_error_code: int = 0  # since version 5
    num_partitions: int = -1  # since version 5
    replication_factor: int = -1  # since version 5
    configs: tuple[CreatableTopicConfigs, ...] | None = None  # since version 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    """One answer per topic."""

    throttle_time_ms: int = 0
    topics: tuple[CreatableTopicResult, ...]
