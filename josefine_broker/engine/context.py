"""The context of request handlers: values, cores and ports. It has no sockets, files or clock of
its own; the simulator passes its own ports.

Rules: one `Context` per broker, on one thread. Each class names the module that assigns its fields,
which `tests/unit/test_owners.py` verifies. Every module may read them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.base.effect_loop import EffectLoop
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.limits import PARTITIONS_PER_BROKER_MAX
from josefine_broker.base.ports import Clock
from josefine_broker.engine.groups.coordinator import GroupCoordinator
from josefine_broker.engine.groups.share.counts import ShareCounts
from josefine_broker.engine.groups.share.sessions import ShareSessions
from josefine_broker.engine.groups.share.stored import ShareStates
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.hosted import Hosted, HostedPartition
from josefine_broker.engine.limits.lasting_limit import LastingLimit
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS, MetadataImage
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata.partition_limit import PartitionLimit
from josefine_broker.engine.metadata.proposals import Proposals
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.partition.fetch_session import FetchSessions, Rng
from josefine_broker.engine.partition.producer_ids import ProducerIds
from josefine_broker.engine.partition.questions import Questions
from josefine_broker.engine.partition.replica_fetch import FetchLimits, ReplicaFetchers
from josefine_broker.engine.ports import LogsPort, Ports, QuorumPort, RaftPort
from josefine_broker.engine.purgatory.purgatory import Parked, ParkedRequests
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.engine.telemetry.client_metrics import ClientMetrics, ClientMetricsSettings
from josefine_broker.engine.transactions.coordinator import TransactionCoordinator
from josefine_broker.engine.transactions.values import TransactionSettings
from josefine_broker.engine.validation.queue import ValidationQueue


class RequestInfo(NamedTuple):
    """The envelope of one request. `header` is the wire format's request header."""

    header: Any
    principal: str
    client_address: str
    listener: str
    connected_ms: int | None = None
    """When its client connected, on the monotonic clock; None: that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSettings:
    """Settings of the coordinators: groups with their committed offsets, and transactions. Kafka's
    50 partitions are meant for clusters larger than this broker supports."""

    partitions: int = 8
    metadata_bytes_max: int = 4096
    timeout_ms: int = 5_000
    """How long an offset commit waits for its replicas (Kafka's offsets.commit.timeout.ms)."""
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    flush: bool = True
    """Records of the coordinators' topics count once they are synced, unless the topic's own
    `flush.messages` differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Limits of what consumers and followers fetch here."""

    bytes_max: int = 55 * 1024 * 1024
    """`fetch.max.bytes` of the broker: no answer is larger, whatever the request allows."""
    sessions_max: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The configuration that handlers need; the defaults are Kafka's."""

    data_directory: str = ""
    """The broker's only log directory in DescribeLogDirs."""
    auto_create_topics: bool = True
    partitions_max: int = PARTITIONS_PER_BROKER_MAX
    """The number of partitions that a broker hosts at most."""
    default_partitions: int = 1
    default_replication_factor: int = 1
    topic_defaults: TopicSettings = field(default_factory=TopicSettings)
    offsets: OffsetsSettings = field(default_factory=OffsetsSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    metadata_timeout_ms: int = 10_000
    """How long a request without its own timeout waits for a metadata change."""
    replica_fetch: FetchLimits = field(default_factory=FetchLimits)
    client_metrics: ClientMetricsSettings = field(default_factory=ClientMetricsSettings)
    host_configs: Mapping[str, str] = field(default_factory=dict)
    """Host settings that DescribeConfigs lists, by Kafka's names."""

    def defaults_of(self, topic: str) -> TopicSettings:
        """The settings of a topic that has no configs set on it."""
        defaults = self.topic_defaults
        if topic not in INTERNAL_TOPICS or not self.offsets.flush:
            return defaults
        return replace(defaults, log=replace(defaults.log, flush_messages=1))


@dataclass(slots=True)
class Counters:
    """Counters of the data path next to topic traffic; the host exports them on a scrape."""

    duplicate_batches: int = 0
    refused_batches: int = 0


@dataclass(slots=True, kw_only=True)
class MetadataState:
    """The state of the metadata in this broker. Written by
    `engine/metadata_quorum/apply_committed.py`."""

    proposals: Proposals
    """The open proposals of this broker."""
    applied_height: int = 0
    """Height of the last Raft block that is in the image."""
    reconciled_image: MetadataImage | None = None
    """The last image that was applied to the hosted partitions."""
    fenced_ms: dict[int, int] = field(default_factory=dict)
    """When this broker saw an active broker become fenced, on its monotonic clock."""


@dataclass(slots=True, kw_only=True)
class ClusterStanding:
    """The controller, and whether it still counts on this process. Two modules write here, each its
    own fields."""

    controller_id: int
    """The leader of the metadata Raft, as far as the host knows; -1: none. Written by
    `engine/metadata_quorum/controller_host.py`."""
    controller_term: int | None = None
    """The term in which this broker is the controller; None: it is not. Written by
    `engine/metadata_quorum/controller_host.py`."""
    incarnation: str = ""
    """The unique name of this process, which takes a role only in an image that contains it.
    Written by `engine/cluster/enrolment.py`."""
    is_heard: bool = True
    """The controller answered this process within its session. Else it has been fenced and its
    leaderships were reassigned, though it cannot know to which brokers. Written by
    `engine/cluster/enrolment.py`."""
    session_end_ms: int = 2**62
    """When that session ends, on the monotonic clock, unless the controller answers again: a
    process that stood still asks the clock. Written by `engine/cluster/enrolment.py`."""
    best_claim: Completeness = Completeness.UNSYNCED
    """The best completeness that this process may claim of a log: UNSYNCED where its disk may be
    older than what the process before acknowledged. Written by `engine/cluster/enrolment.py`."""


@dataclass(slots=True, kw_only=True)
class Storage:
    """Whether this broker can write. Written by `observe/storage.py`."""

    is_full: bool = False
    """Nothing is appended: the remaining space is for metadata and indexes."""
    trouble: str = ""
    """Why this broker should not lead: a full disk, a limit that lasts, a log that cannot be
    written or opened."""
    metadata_lacks: str = ""
    """Why no metadata can be written now: this broker may not learn that it leads. Written by
    `engine/metadata_quorum/ready_work.py`."""
    limit: LastingLimit = field(default_factory=LastingLimit)


@dataclass(slots=True, kw_only=True)
class Groups:
    """The groups that this broker coordinates, and the state of their host."""

    coordinator: GroupCoordinator
    loading: dict[tuple[str, int], Parked] = field(default_factory=dict)
    """Partitions of the offsets topic that are led here and still being loaded, each with its
    loader. Written by `engine/coordinators/loading_groups.py`."""
    alarm: Parked | None = None
    """Fires when a group is due. Written by `engine/coordinators/groups_host.py`."""
    taking_in: dict[tuple[str, int], Any] = field(default_factory=dict)
    """Partitions of the offsets topic with writes that are not committed, each with what applies
    them. Written by `engine/coordinators/offsets_topic.py`."""
    effects: EffectLoop = field(default_factory=EffectLoop)


@dataclass(slots=True, kw_only=True)
class Transactions:
    """The transactions that this broker coordinates, and the state of their host."""

    coordinator: TransactionCoordinator
    loading: dict[tuple[str, int], Parked] = field(default_factory=dict)
    """Partitions of `__transaction_state` that are led here and still being loaded, each with its
    loader. Written by `engine/coordinators/loading_transactions.py`."""
    effects: EffectLoop = field(default_factory=EffectLoop)


@dataclass(slots=True, kw_only=True)
class Shares:
    """The share partitions that this broker leads, and the share states that it coordinates."""

    sessions: ShareSessions
    states: ShareStates = field(default_factory=ShareStates)
    loading: dict[tuple[str, int], Parked] = field(default_factory=dict)
    """Partitions of `__share_group_state` that are led here and still being loaded, each with its
    loader. Written by `engine/coordinators/loading_share_states.py`."""
    counts: ShareCounts = field(default_factory=ShareCounts)
    led: dict[ShareKey, Any] = field(default_factory=dict)
    """The share partitions in use, each a `LedShare`. Written by
    `engine/coordinators/share_partitions_host.py`."""


@dataclass(slots=True, kw_only=True)
class ClientState:
    """State of clients between their requests; each field has a class that changes it."""

    sessions: FetchSessions
    groups: Groups
    transactions: Transactions
    shares: Shares
    metrics: ClientMetrics
    questions: Questions = field(default_factory=Questions)
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    validations: ValidationQueue = field(default_factory=ValidationQueue)
    authorizer: Authorizer | None = None
    """None: access control is off."""
    listeners_apart: frozenset[str] = frozenset()
    """Listeners that no broker connects to: requests reserved for brokers are refused there."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The composition that handlers work on. Its parts are never replaced, except the image."""

    broker_id: int
    settings: BrokerSettings
    clock: Clock
    """Read where time is needed, instead of passed as an argument: a waiting request is woken by
    other requests' events, and each of them would have to pass both times along."""
    ports: Ports
    image: MetadataImage
    """The cluster's metadata, as far as applied here. Never changed but replaced. Written by
    `engine/metadata_quorum/apply_committed.py`."""
    metadata: MetadataState
    hosted: Hosted
    cluster: ClusterStanding
    clients: ClientState
    storage: Storage = field(default_factory=Storage)
    parked: ParkedRequests = field(default_factory=ParkedRequests)
    counters: Counters = field(default_factory=Counters)

    def hosted_partition(self, topic: str, index: int) -> HostedPartition:
        """A partition hosted here. Raises KafkaError with the code that makes clients look
        elsewhere."""
        found = self.hosted.partitions.get((topic, index))
        if found is not None:
            return found
        unopened = self.hosted.unopened.get((topic, index))
        if unopened is not None:
            raise KafkaError(ErrorCode.kafka_storage_error, unopened.reason)
        if self.image.partition(topic, index) is not None:
            raise KafkaError(ErrorCode.not_leader_or_follower, "another broker hosts it")
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no partition {topic}-{index}")

    @property
    def broker_epoch(self) -> int:
        """The epoch of this process; -1 while the image lacks it (or has a later one)."""
        entry = self.image.brokers.get(self.broker_id)
        if entry is None or entry.incarnation != self.cluster.incarnation:
            return -1
        return entry.epoch

    def partition_limit(self) -> PartitionLimit:
        """A limit for the new partitions of one request."""
        return PartitionLimit(self.image, self.settings.partitions_max)

    def topic_name(self, name: str | None, topic_id: UUID | None) -> str | None:
        """The name of a topic requested by id (KIP-516) or by name; None: unknown id."""
        if topic_id is None or not topic_id.int:
            return name
        return self.image.topic_names.get(topic_id)


def new_context(
    *,
    broker_id: int,
    image: MetadataImage,
    clock: Clock,
    rng: Rng,
    raft: RaftPort,
    logs: LogsPort,
    settings: BrokerSettings,
    quorum: QuorumPort | None = None,
    why_no_controller: Callable[[], str] = str,
    authorizer: Authorizer | None = None,
    listeners_apart: frozenset[str] = frozenset(),
) -> Context:
    """A context with empty tables."""
    return Context(
        broker_id=broker_id,
        settings=settings,
        clock=clock,
        ports=Ports(
            rng=rng, logs=logs, raft=raft, quorum=quorum, why_no_controller=why_no_controller
        ),
        image=image,
        # Random, so that a restarted broker does not mistake an old block for its own proposal.
        metadata=MetadataState(proposals=Proposals(broker_id, rng.getrandbits(48))),
        hosted=Hosted(fetchers=ReplicaFetchers(broker_id, settings.replica_fetch)),
        cluster=ClusterStanding(controller_id=broker_id),
        clients=ClientState(
            sessions=FetchSessions(settings.fetch.sessions_max),
            groups=Groups(coordinator=GroupCoordinator(settings.offsets.groups)),
            transactions=Transactions(
                coordinator=TransactionCoordinator(settings.offsets.transactions)
            ),
            shares=Shares(
                sessions=ShareSessions(settings.offsets.groups.consumer_session_timeout_ms)
            ),
            metrics=ClientMetrics(settings.client_metrics),
            authorizer=authorizer,
            listeners_apart=listeners_apart,
        ),
    )


Handler = Callable[[Context, RequestInfo, Any], Any | Parked | None]
"""A handler: takes the newest request entity, returns the newest response entity, a parked token,
or None (acks=0 expects no answer). Raises KafkaError when the whole request is refused."""
