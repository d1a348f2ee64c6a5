"""The partitions that this broker hosts: each with its log, and what is on its way to be one.

A log is reached through `LogPort`: called in line, on the broker's one thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.refusals import EarlyRefusals
from josefine_broker.engine.partition.replica_fetch import ReplicaFetchers
from josefine_broker.engine.partition.replication import IsrChanges
from josefine_broker.engine.traffic import Traffic, TrafficTable
from josefine_broker.records.batch import BatchHeader, OnBatch

Buffer = bytes | bytearray | memoryview


class LogPort(Protocol):
    """One partition's log, as `host/log/log.py` has it; ends are exclusive.

    Raises KafkaError(kafka_storage_error | corrupt_message | offset_out_of_range); after a refused
    append it is as it was.
    """

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def durable_end_offset(self) -> int:
        """How far its records count as stored: where they must be synced for that
        (`flush.messages=1`), those that are; else the log end."""
        ...

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

    def replay(self, on_snapshot: Callable[[bytes], None] | None, on_batch: OnBatch) -> None:
        """The newest producer snapshot, then each batch header behind it."""
        ...


class SearchPort(Protocol):
    """A lookup that reads records: to be run beside the broker's thread."""

    def run(self, breathe: Callable[[], None]) -> tuple[int, int, int] | None:
        """(offset, timestamp_ms, leader_epoch), or None. Calls `breathe` every millisecond or so.

        Raises KafkaError, also what `breathe` raises."""
        ...


@dataclass(slots=True)
class HostedPartition:
    """A partition this broker hosts: its deciding part and its log."""

    topic_id: UUID
    partition: Partition
    log: LogPort
    settings: TopicSettings
    """Written by `engine/metadata_quorum/apply_committed.py`."""
    halt: str = ""
    """Why it does not follow its leader, which a person must look at; empty: it does.
    Written by `engine/replicas/following.py` and `engine/replicas/leading.py`."""
    traffic: Traffic = field(default_factory=Traffic)
    """Its topic's. Written by `engine/metadata_quorum/apply_committed.py`."""

    @property
    def is_all_committed(self) -> bool:
        """Whether what is in the log is committed, without other replicas to ask."""
        partition = self.partition
        return partition.is_alone and partition.high_watermark >= self.log.log_end_offset


class Unopened(NamedTuple):
    """A partition of this broker whose log could not be opened."""

    reason: str
    is_damaged: bool
    """The log is not what was written: only a person can mend it. Else the disk, or the system,
    would not let it be opened now."""


@dataclass(slots=True)
class ReplicaCounters:
    """What replication counts; the host exports it on a scrape."""

    replicated_batches: int = 0
    replicated_bytes: int = 0
    replication_errors: int = 0
    truncations: int = 0
    truncations_refused: int = 0
    isr_proposals: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0


@dataclass(slots=True, kw_only=True)
class Hosted:
    """This broker's replicas: those there are by the image, and what follows from that. Written by
    `engine/metadata_quorum/apply_committed.py`; what has a class of its own is changed by that."""

    fetchers: ReplicaFetchers
    """What is copied from other brokers."""
    partitions: dict[tuple[str, int], HostedPartition] = field(default_factory=dict)
    """Those that are open, by topic and index."""
    unopened: dict[tuple[str, int], Unopened] = field(default_factory=dict)
    """Those that could not be opened."""
    early_refusals: EarlyRefusals = field(default_factory=EarlyRefusals)
    """For those that a block may create in a moment."""
    isr: IsrChanges = field(default_factory=IsrChanges)
    """The changes of those that are led here."""
    counters: ReplicaCounters = field(default_factory=ReplicaCounters)
    traffic: TrafficTable = field(default_factory=TrafficTable)
