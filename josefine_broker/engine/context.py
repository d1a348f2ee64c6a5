"""What handlers see of the broker: values, cores and ports. No sockets, no files, no clock of its
own; the simulator hands them its own ports.

Rules: one `Context` per broker, on one thread. Each class says who assigns its fields; that is
held by `tests/unit/test_owners.py`. Everybody reads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.limits import PARTITIONS_PER_BROKER_MAX
from josefine_broker.base.ports import Clock
from josefine_broker.engine.groups.coordinator import GroupCoordinator
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.hosted import Hosted, HostedPartition
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS, MetadataImage
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
from josefine_broker.engine.transactions.coordinator import TransactionCoordinator
from josefine_broker.engine.transactions.values import TransactionSettings
from josefine_broker.engine.validation.queue import ValidationQueue


class RequestInfo(NamedTuple):
    """One request's envelope. `header` is the wire's request header."""

    header: Any
    principal: str
    client_address: str
    listener: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSettings:
    """Of what this broker coordinates: groups with their committed offsets, and transactions.
    Kafka's 50 partitions are for clusters larger than this broker is for."""

    partitions: int = 8
    metadata_bytes_max: int = 4096
    timeout_ms: int = 5_000
    """How long an offset commit waits for its replicas (Kafka's offsets.commit.timeout.ms)."""
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    flush: bool = True
    """Records of the coordinators' topics count once they are synced, unless the topic's own
    `flush.messages` says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Bounds of what consumers and followers fetch here."""

    bytes_max: int = 55 * 1024 * 1024
    """`fetch.max.bytes` of the broker: an answer is not larger, whatever was asked."""
    sessions_max: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Configuration as far as handlers need it; the defaults are Kafka's."""

    data_directory: str = ""
    """What DescribeLogDirs calls this broker's only log directory."""
    auto_create_topics: bool = True
    partitions_max: int = PARTITIONS_PER_BROKER_MAX
    """That a broker hosts."""
    default_partitions: int = 1
    default_replication_factor: int = 1
    topic_defaults: TopicSettings = field(default_factory=TopicSettings)
    offsets: OffsetsSettings = field(default_factory=OffsetsSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    metadata_timeout_ms: int = 10_000
    """How long a request without a timeout of its own waits for a metadata change."""
    lag_time_max_ms: int = 10_000
    """A follower that has not had everything for this long leaves the ISR."""
    replica_fetch: FetchLimits = field(default_factory=FetchLimits)
    host_configs: Mapping[str, str] = field(default_factory=dict)
    """What DescribeConfigs shows of the host, under Kafka's names."""

    def defaults_of(self, topic: str) -> TopicSettings:
        """What holds of a topic without a configuration of its own."""
        defaults = self.topic_defaults
        if topic not in INTERNAL_TOPICS or not self.offsets.flush:
            return defaults
        return replace(defaults, log=replace(defaults.log, flush_messages=1))


@dataclass(slots=True)
class Counters:
    """What the data path counts beside the traffic of topics; the host exports it on a scrape."""

    duplicate_batches: int = 0
    refused_batches: int = 0


@dataclass(slots=True, kw_only=True)
class MetadataState:
    """How far the metadata is followed here. Written by
    `engine/metadata_quorum/apply_committed.py`."""

    proposals: Proposals
    """Changes of ours on their way."""
    applied_height: int = 0
    """Height of the last Raft block that the image holds."""
    reconciled_image: MetadataImage | None = None
    """The image that the hosted partitions last followed."""
    fenced_ms: dict[int, int] = field(default_factory=dict)
    """When a broker that served was seen to be fenced, on this broker's monotonic clock."""


@dataclass(slots=True, kw_only=True)
class ClusterStanding:
    """Who decides in the cluster, and whether it still counts on this process: the one thing that
    two write, each its own."""

    controller_id: int
    """The broker that leads the Raft, as far as the host knows it; -1: none. Written by
    `engine/metadata_quorum/controller_host.py`."""
    controller_term: int | None = None
    """The term in which this broker is the controller; None: it is not. Written by
    `engine/metadata_quorum/controller_host.py`."""
    incarnation: str = ""
    """What this process calls itself: it takes a role only in an image that knows it by it.
    Written by `engine/cluster/enrolment.py`."""
    is_heard: bool = True
    """The controller answered this process within its session: else it has been fenced, and its
    leaderships are others' by now, though it cannot know whose. Written by
    `engine/cluster/enrolment.py`."""


@dataclass(slots=True, kw_only=True)
class Storage:
    """Whether this broker can write. Written by `observe/storage.py`."""

    is_full: bool = False
    """Nothing is appended: what space is left is for metadata and indexes."""
    trouble: str = ""
    """Why this broker should not lead: a full disk, a log that cannot be written or opened."""


@dataclass(slots=True, kw_only=True)
class Groups:
    """The groups that this broker coordinates, and what their host remembers."""

    coordinator: GroupCoordinator
    loading: dict[tuple[str, int], Parked] = field(default_factory=dict)
    """Partitions of the offsets topic that are led here and not read to their end yet, each with
    who reads it. Written by `engine/coordinators/loading_groups.py`."""
    alarm: Parked | None = None
    """Rings when a group is due. Written by `engine/coordinators/groups_host.py`."""
    is_working: bool = False
    """What the coordinator wants is being done. Written by `engine/coordinators/groups_host.py`."""


@dataclass(slots=True, kw_only=True)
class Transactions:
    """The transactions that this broker coordinates, and what their host remembers. Written by
    `engine/coordinators/transactions_host.py` and `engine/coordinators/loading_transactions.py`."""

    coordinator: TransactionCoordinator
    loading: dict[tuple[str, int], Parked] = field(default_factory=dict)
    """Partitions of `__transaction_state` that are led here and not read to their end yet, each
    with who reads it."""
    is_working: bool = False
    """What the coordinator wants is being done."""


@dataclass(slots=True, kw_only=True)
class ClientState:
    """What is kept for clients between their requests; each has a class that changes it."""

    sessions: FetchSessions
    groups: Groups
    transactions: Transactions
    questions: Questions = field(default_factory=Questions)
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    validations: ValidationQueue = field(default_factory=ValidationQueue)
    authorizer: Authorizer | None = None
    """None: everybody may do everything."""
    listeners_apart: frozenset[str] = frozenset()
    """Through which no broker comes: what only brokers ask is refused there."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The one composition that handlers work on. Its parts are never replaced."""

    broker_id: int
    settings: BrokerSettings
    clock: Clock
    """Asked where time is needed, not passed: a request that waits is woken by others' events, and
    each of them would have to bring both times along."""
    ports: Ports
    image: MetadataImage
    """What the cluster has decided, as far as it is applied here. Never changed but replaced by
    another: written by `engine/metadata_quorum/apply_committed.py`."""
    metadata: MetadataState
    hosted: Hosted
    cluster: ClusterStanding
    clients: ClientState
    storage: Storage = field(default_factory=Storage)
    parked: ParkedRequests = field(default_factory=ParkedRequests)
    counters: Counters = field(default_factory=Counters)

    def hosted_partition(self, topic: str, index: int) -> HostedPartition:
        """A partition hosted here. Raises KafkaError that tells a client where it stands."""
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
        """Of this process, -1 while the image does not know it (or knows a later one)."""
        entry = self.image.brokers.get(self.broker_id)
        if entry is None or entry.incarnation != self.cluster.incarnation:
            return -1
        return entry.epoch

    def partition_limit(self) -> PartitionLimit:
        """For the new partitions of one request."""
        return PartitionLimit(self.image, self.settings.partitions_max)

    def topic_name(self, name: str | None, topic_id: UUID | None) -> str | None:
        """The name of a topic asked for by id (KIP-516) or by name; None: no such id."""
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
        metadata=MetadataState(proposals=Proposals(broker_id, rng.getrandbits(48))),
        hosted=Hosted(fetchers=ReplicaFetchers(broker_id, settings.replica_fetch)),
        cluster=ClusterStanding(controller_id=broker_id),
        clients=ClientState(
            sessions=FetchSessions(settings.fetch.sessions_max),
            groups=Groups(coordinator=GroupCoordinator(settings.offsets.groups)),
            transactions=Transactions(
                coordinator=TransactionCoordinator(settings.offsets.transactions)
            ),
            authorizer=authorizer,
            listeners_apart=listeners_apart,
        ),
    )


Handler = Callable[[Context, RequestInfo, Any], Any | Parked | None]
"""A handler: the newest request entity in; the newest response entity, a parked token, or None
(acks=0: no answer is owed) out. Raises KafkaError when the whole request is refused."""
