"""What handlers see of the broker: values, cores and ports. No sockets, no files, no clock of its
own; the simulator hands them its own ports.

Rules: one `Context` per broker, on one thread. `image` is replaced, never changed, and only by
`handlers/blocks.py`. Counters are plain integers.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.limits import PARTITIONS_PER_BROKER_MAX
from josefine_broker.base.ports import Clock
from josefine_broker.core.changes import Change
from josefine_broker.core.fetch_session import FetchSessions, Rng
from josefine_broker.core.group_offsets import GroupOffsets
from josefine_broker.core.image import MetadataImage
from josefine_broker.core.log_config import LogConfig
from josefine_broker.core.parked import Parked, ParkedRequests
from josefine_broker.core.partition import Partition
from josefine_broker.core.partition_limit import PartitionLimit
from josefine_broker.core.producer_ids import ProducerIds
from josefine_broker.core.proposals import AwaitProposals, Proposal, Proposals
from josefine_broker.core.refusals import EarlyRefusals
from josefine_broker.core.replica_fetch import FetchLimits, ReplicaFetchers
from josefine_broker.core.replication import IsrProposals
from josefine_broker.core.topic_config import TopicSettings
from josefine_broker.records.batch import BatchHeader

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class LogPort(Protocol):
    """One partition's log, as `shell/log.py` has it; ends are exclusive.

    Raises KafkaError(kafka_storage_error | corrupt_message | offset_out_of_range); after a refused
    append it is as it was.
    """

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def failure(self) -> str:
        """Why it is not written any more; empty while all is well."""
        ...

    def append(self, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
        """Store one stamped batch; `header` may be from before the stamping of its offset."""
        ...

    def read(
        self, offset: int, bytes_max: int, *, end_offset: int, at_least_one: bool = True
    ) -> Sequence[Buffer]:
        """Whole batches from the one holding `offset`, below `end_offset`."""
        ...

    def timestamp_search(self, timestamp_ms: int | None) -> "SearchPort | None":
        """For the first record not older, or (None) the first of the newest ones; None: there is
        no such record, as far as can be told without a look at records."""
        ...

    def delete_before(self, offset: int) -> None: ...

    def truncate_to(self, end_offset: int) -> None:
        """Cut the end; within a batch, before it; at or below the log start, `restart_at`."""
        ...

    def restart_at(self, offset: int) -> None:
        """Empty the log; its start and end become `offset`."""
        ...

    def replay(
        self, on_snapshot: Callable[[bytes], None] | None, on_batch: Callable[[BatchHeader], None]
    ) -> None:
        """The newest producer snapshot, then each batch header behind it."""
        ...


class SearchPort(Protocol):
    """A lookup that reads records: to be run beside the broker's thread."""

    def run(self, breathe: Callable[[], None]) -> tuple[int, int, int] | None:
        """(offset, timestamp_ms, leader_epoch), or None. Calls `breathe` every millisecond or so.

        Raises KafkaError, also what `breathe` raises."""
        ...


class WorkPort(Protocol):
    """Long work, beside the broker's thread."""

    def __call__(
        self,
        job: Callable[[Callable[[], None]], T],
        is_wanted: Callable[[], bool],
        done: Callable[[T | None], None],
        /,
    ) -> None:
        """`job` runs elsewhere, with the `breathe` it is to call: that lets others run, and raises
        KafkaError when nobody wants the work any more. `done` comes later, or at once, on the
        broker's thread; with None where the job failed on an error of its own.

        Raises KafkaError when too much work is waiting."""
        ...


def work_at_once(
    job: Callable[[Callable[[], None]], T],
    is_wanted: Callable[[], bool],
    done: Callable[[T | None], None],
) -> None:
    """In line: for tests and the simulator."""
    done(job(lambda: None))


class LogsPort(Protocol):
    """The logs of this broker, as the composition root offers them."""

    def open(
        self, tp: TopicPartition, topic_id: UUID, settings: TopicSettings
    ) -> "HostedPartition":
        """Open or create the log, recovered, with what recovery learnt of producers and epochs."""
        ...

    def configure(self, tp: TopicPartition, config: LogConfig) -> None:
        """The topic's settings changed."""
        ...

    def delete(self, tp: TopicPartition) -> None:
        """The replica is gone from here: close and remove its files."""
        ...

    def remove_strays(self, keep: Collection[tuple[str, int]]) -> None:
        """The image was followed for the first time: other partitions on disk are nobody's."""
        ...

    def store_epochs(self, tp: TopicPartition) -> None:
        """The partition's leader epochs changed: store them, soon and before any snapshot."""
        ...


class RaftPort(Protocol):
    """Where metadata changes go. The answer is the applied block; a failure is the deadline."""

    def propose(self, payload: bytes, deadline_ms: int) -> object: ...


class QuorumMember(NamedTuple):
    """One member of the metadata's Raft; -1 where this broker does not know."""

    broker_id: int
    log_end_height: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    """Wall clock, as Kafka tells these two."""


class QuorumView(NamedTuple):
    """The metadata's Raft as this broker sees it: all of it on the leader, less elsewhere."""

    leader_id: int
    term: int
    commit_height: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...] = ()


class QuorumPort(Protocol):
    """Who decides on metadata (KIP-595)."""

    def describe(self) -> QuorumView: ...

    def remove_voter(self, broker_id: int) -> bool:
        """Begin to take a vote away, as the leader; False: not now."""
        ...


class ForwardPort(Protocol):
    """Asks another broker what a client asked here."""

    def __call__(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        deadline_ms: int,
        on_answer: Callable[[Any | None], None],
        /,
    ) -> None:
        """`on_answer` comes later, once: with None when there is no answer."""
        ...


class RequestInfo(NamedTuple):
    """One request's envelope. `header` is the wire's request header."""

    header: Any
    principal: str
    client_address: str
    listener: str


@dataclass(slots=True)
class HostedPartition:
    """A partition this broker hosts: its deciding part and its log."""

    topic_id: UUID
    partition: Partition
    log: LogPort
    settings: TopicSettings
    halt: str = ""
    """Why it does not follow its leader, which a person must look at; empty: it does."""


class Unopened(NamedTuple):
    """A partition of this broker whose log could not be opened."""

    reason: str
    is_damaged: bool
    """The log is not what was written: only a person can mend it. Else the disk, or the system,
    would not let it be opened now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Configuration as far as handlers need it; the defaults are Kafka's but for the offsets topic,
    whose 50 partitions are for clusters larger than this broker is for."""

    auto_create_topics: bool = True
    partitions_max: int = PARTITIONS_PER_BROKER_MAX
    """That a broker hosts."""
    default_partitions: int = 1
    default_replication_factor: int = 1
    topic_defaults: TopicSettings = field(default_factory=TopicSettings)
    offsets_partitions: int = 8
    fetch_bytes_max: int = 55 * 1024 * 1024
    """`fetch.max.bytes` of the broker: a fetch answer is not larger, whatever was asked."""
    fetch_sessions_max: int = 1000
    metadata_timeout_ms: int = 10_000
    """How long a request without a timeout of its own waits for a metadata change."""
    offset_metadata_bytes_max: int = 4096
    offsets_timeout_ms: int = 5_000
    """How long an offset commit waits for its replicas (Kafka's offsets.commit.timeout.ms)."""
    lag_time_max_ms: int = 10_000
    """A follower that has not had everything for this long leaves the ISR."""
    replica_fetch: FetchLimits = field(default_factory=FetchLimits)


@dataclass(slots=True)
class Counters:
    """What the data path counts; the shell exports it on a scrape."""

    produced_batches: int = 0
    produced_records: int = 0
    produced_bytes: int = 0
    duplicate_batches: int = 0
    refused_batches: int = 0
    fetched_bytes: int = 0
    replicated_batches: int = 0
    replicated_bytes: int = 0
    replication_errors: int = 0
    truncations: int = 0
    truncations_refused: int = 0
    isr_proposals: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0


@dataclass(slots=True, kw_only=True)
class Context:
    """The one mutable composition that handlers work on."""

    broker_id: int
    image: MetadataImage
    clock: Clock
    rng: Rng
    raft: RaftPort
    logs: LogsPort
    settings: BrokerSettings
    proposals: Proposals
    sessions: FetchSessions
    incarnation: str = ""
    """What this process calls itself: it takes a role only in an image that knows it by it."""
    controller_id: int = -1
    """The broker that leads the Raft, as far as the shell knows it; -1: none."""
    controller_term: int | None = None
    """The term in which this broker is the controller; None: it is not."""
    applied_height: int = 0
    """Height of the last Raft block that the image holds."""
    quorum: QuorumPort | None = None
    """None: nothing is known of it (a handler without a Raft beside it)."""
    why_no_controller: Callable[[], str] = str
    """Why nobody decides now, as a sentence; empty while somebody leads."""
    work: WorkPort = work_at_once
    """Where what takes longer than a few milliseconds is done."""
    forward: ForwardPort | None = None
    """None: this broker reaches no other."""
    partitions: dict[tuple[str, int], HostedPartition] = field(default_factory=dict)
    unopened: dict[tuple[str, int], Unopened] = field(default_factory=dict)
    early_refusals: EarlyRefusals = field(default_factory=EarlyRefusals)
    parked: ParkedRequests = field(default_factory=ParkedRequests)
    groups: GroupOffsets = field(default_factory=GroupOffsets)
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    counters: Counters = field(default_factory=Counters)
    fetchers: ReplicaFetchers = field(default_factory=ReplicaFetchers)
    isr: IsrProposals = field(default_factory=IsrProposals)
    fenced_ms: dict[int, int] = field(default_factory=dict)
    """When a broker that served was seen to be fenced, on this broker's monotonic clock."""
    reconciled_image: MetadataImage | None = None
    """The image that the hosted partitions last followed."""
    is_heard: bool = True
    """The controller answered this process within its session: else it has been fenced, and its
    leaderships are others' by now, though it cannot know whose."""
    disk_full: bool = False
    """Nothing is appended: what space is left is for metadata and indexes."""
    storage_trouble: str = ""
    """Why this broker should not lead: a full disk, a log that cannot be written or opened."""
    data_directory: str = ""
    """What DescribeLogDirs calls this broker's only log directory."""

    def hosted(self, topic: str, index: int) -> HostedPartition:
        """A partition hosted here. Raises KafkaError that tells a client where it stands."""
        hosted = self.partitions.get((topic, index))
        if hosted is not None:
            return hosted
        if (topic, index) in self.unopened:
            raise KafkaError(ErrorCode.kafka_storage_error, self.unopened[topic, index].reason)
        if self.image.partition(topic, index) is not None:
            raise KafkaError(ErrorCode.not_leader_or_follower, "another broker hosts it")
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no partition {topic}-{index}")

    @property
    def broker_epoch(self) -> int:
        """Of this process, -1 while the image does not know it (or knows a later one)."""
        entry = self.image.brokers.get(self.broker_id)
        if entry is None or entry.incarnation != self.incarnation:
            return -1
        return entry.epoch

    def partition_limit(self) -> PartitionLimit:
        """For the new partitions of one request."""
        return PartitionLimit(self.image, self.settings.partitions_max)

    def propose(self, change: Change, deadline_ms: int) -> Proposal:
        """Hand a metadata change to Raft; `deadline_ms` is absolute and monotonic."""
        proposal, payload = self.proposals.open(change)
        self.raft.propose(payload, deadline_ms)
        return proposal

    def answer_when_settled(
        self, proposals: Sequence[Proposal], deadline_ms: int, build: Callable[[], object]
    ) -> object:
        """`build()` now when nothing is open, else a token that is answered by it later."""
        if all(proposal.settled for proposal in proposals):
            return build()
        waiting = AwaitProposals(
            self.proposals, proposals, deadline_ms, build, self.why_no_controller
        )
        self.parked.park(waiting, [each.origin for each in proposals if not each.settled])
        return waiting

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
    data_directory: str = "",
) -> Context:
    """A context with empty tables."""
    return Context(
        broker_id=broker_id,
        image=image,
        clock=clock,
        rng=rng,
        raft=raft,
        logs=logs,
        settings=settings,
        proposals=Proposals(broker_id, rng.getrandbits(48)),
        sessions=FetchSessions(settings.fetch_sessions_max),
        controller_id=broker_id,
        fetchers=ReplicaFetchers(broker_id, settings.replica_fetch),
        data_directory=data_directory,
    )


Handler = Callable[[Context, RequestInfo, Any], Any | Parked | None]
"""A handler: the newest request entity in; the newest response entity, a parked token, or None
(acks=0: no answer is owed) out. Raises KafkaError when the whole request is refused."""
