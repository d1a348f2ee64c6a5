"""The hosted partitions of this broker, each with its log, and those that could not be opened.

Logs are accessed through `LogPort`: synchronous calls on the broker's one thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.log_completeness import Completeness, LogKey
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.partition.catch_up import CatchUp
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.refusals import EarlyRefusals
from josefine_broker.engine.partition.repair.substitutes import Substitutes
from josefine_broker.engine.partition.replica_fetch import ReplicaFetchers
from josefine_broker.engine.partition.replication import IsrChanges
from josefine_broker.engine.traffic import Traffic, TrafficTable
from josefine_broker.records.batch import BatchHeader, OnBatch
from josefine_broker.records.plain_produce import PlainRequest

Buffer = bytes | bytearray | memoryview

NOWHERE = 2**63 - 1
"""Past every offset."""


class LogPort(Protocol):
    """One partition's log, implemented by `host/log/log.py`; end offsets are exclusive.

    Raises KafkaError(kafka_storage_error | corrupt_message | offset_out_of_range); a refused append
    changes nothing.
    """

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def durable_end_offset(self) -> int:
        """The end of the records that count as stored: the synced ones where that is required
        (`flush.messages=1`); else the log end offset."""
        ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def failure(self) -> str:
        """Why the log accepts no more writes; empty while it does."""
        ...

    @property
    def unsynced(self) -> str:
        """Why the last sync could not be made, for a reason that may pass; empty: it was."""
        ...

    def append(self, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
        """Store one stamped batch; `header` may lack the stamped offset."""
        ...

    def append_plain(
        self,
        requests: list[PlainRequest],
        size: int,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        written: Callable[[int], None] | None = None,
    ) -> "tuple[int, Buffer] | None":
        """Stamp and store the batches of these requests, of `size` bytes in all: the offset of the
        first, and what was stored. None: nothing was; `append` may store them, or has the
        reason. `written` is called with that offset once a crash of this process would not lose
        them, before the log accounts for them."""
        ...

    def append_copies(self, data: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> bool:
        """Store verified batches of one leader epoch that continue the log, back to back in
        `data`. False: nothing was stored; `append` may store them, or has the reason."""
        ...

    def read(
        self, offset: int, bytes_max: int, *, end_offset: int, at_least_one: bool = True
    ) -> Sequence[Buffer]:
        """Whole batches from the one with `offset`, below `end_offset`."""
        ...

    def timestamp_search(self, timestamp_ms: int | None) -> "SearchPort | None":
        """A search for the first record that is not older, or (None) for the first of the newest
        ones; None: there is no such record, as far as is known without reading records."""
        ...

    def delete_before(self, offset: int) -> None: ...

    def truncate_to(self, end_offset: int) -> None:
        """Truncate the end; an end within a batch removes the batch; one at or below the log start
        offset is `restart_at`."""
        ...

    def restart_at(self, offset: int) -> None:
        """Empty the log; start and end offset become `offset`."""
        ...

    def replay(self, on_snapshot: Callable[[bytes], None] | None, on_batch: OnBatch) -> bool:
        """Pass on the newest producer snapshot, then the header of each later batch. Returns
        whether all were intact: a damaged one is passed over, and will be repaired."""
        ...


class SearchPort(Protocol):
    """A lookup that reads records, to be run outside the broker's thread."""

    def run(self, breathe: Callable[[], None]) -> tuple[int, int, int] | None:
        """(offset, timestamp_ms, leader_epoch), or None. Calls `breathe` about every millisecond.

        Raises KafkaError, and what `breathe` raises."""
        ...


@dataclass(slots=True)
class HostedPartition:
    """A partition that this broker hosts: its state and its log."""

    topic_id: UUID
    partition: Partition
    log: LogPort
    settings: TopicSettings
    """Written by `engine/metadata_quorum/apply_committed.py`."""
    halt: str = ""
    """Why it does not follow its leader, which needs a person; empty while it does. Written by
    `engine/replicas/following.py` and `engine/replicas/leading.py`."""
    ends_in_damage: bool = False
    """Damage was cut off at the end of its log at the start, and nobody has confirmed since that
    no record is missing. Written by `engine/replicas/leading.py` and
    `engine/replicas/catching_up.py`."""
    lost: tuple[tuple[int, int], ...] = ()
    """Offset ranges that no replica has intact. Written by `engine/replicas/repair/repairs.py`."""
    substitutes: Substitutes | None = None
    """What consumers get instead of damaged batches, since one has met some. Written by
    `engine/replicas/repair/repairs.py`."""
    lost_from: int = NOWHERE
    """From this offset on a power failure may have taken records from the log."""
    served_by: tuple[int, LeaderEpoch] | None = None
    """The leader, and its epoch, that has answered a fetch of this replica since it waits for its
    repair. Written by `engine/replicas/following.py`."""
    better_claim: Completeness | None = None
    """The completeness of its log, where the registration claimed that it is unreadable: an I/O
    error has passed since."""
    traffic: Traffic = field(default_factory=Traffic)
    """The topic's counters. Written by `engine/metadata_quorum/apply_committed.py`."""

    def is_served_by(self, replica: int) -> bool:
        """Whether this replica leads the partition now, and serves: its log is the partition's."""
        partition = self.partition
        is_leader = replica == partition.leader
        return is_leader and self.served_by == (replica, partition.leader_epoch)

    def takes_all_from(self, replica: int, own_id: int, *, has_ours: bool) -> bool:
        """Whether a repair may use batches of this replica that are not known to be committed. A
        leader's log defines the partition; while it is repaired, nobody knows better. `has_ours`:
        the batch here is intact. It gives way to none of a leader that may still take its end from
        this replica, nor of another replica, whose log may end with those of a leader who lost."""
        if has_ours:
            return self.is_served_by(replica)
        return self.partition.leader in (replica, own_id)

    def substitute(
        self, offset: int, bytes_max: int, end_offset: int, *, at_least_one: bool
    ) -> Sequence[Buffer]:
        """What another replica has sent of a damaged range; None: it is asked for."""
        epoch, its = self.partition.leader_epoch, self.substitutes
        if its is None or its.leader_epoch != epoch:
            its = self.substitutes = Substitutes(epoch)
        return its.read(offset, bytes_max, end_offset, at_least_one=at_least_one)

    def may_be_repaired(self, offset: int) -> bool:
        """Whether a damaged batch with this offset may come back from another replica."""
        is_lost = any(start <= offset < end for start, end in self.lost)
        return len(self.partition.replicas) > 1 and not is_lost

    @property
    def is_all_committed(self) -> bool:
        """Whether everything in the log is committed without waiting for other replicas."""
        partition = self.partition
        return partition.is_alone and partition.high_watermark >= self.log.log_end_offset


class Unopened(NamedTuple):
    """A partition of this broker whose log could not be opened."""

    reason: str
    is_damaged: bool
    """The log differs from what was written: only a person can repair it. Else disk or operating
    system prevented opening it, perhaps temporarily."""


@dataclass(slots=True)
class ReplicaCounters:
    """The counters of replication; the host exports them on a scrape."""

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
    """This broker's replicas according to the image. Written by
    `engine/metadata_quorum/apply_committed.py`; fields with a class of their own are changed by
    that class."""

    fetchers: ReplicaFetchers
    """The partitions that are copied from other brokers."""
    partitions: dict[tuple[str, int], HostedPartition] = field(default_factory=dict)
    """The open partitions, by topic and index."""
    unopened: dict[tuple[str, int], Unopened] = field(default_factory=dict)
    """Partitions that could not be opened."""
    early_refusals: EarlyRefusals = field(default_factory=EarlyRefusals)
    """Refusals for partitions that a block may create shortly."""
    catching_up: dict[tuple[str, int], CatchUp] = field(default_factory=dict)
    """Partitions whose leadership here waits for the end of their logs. Written by
    `engine/replicas/catching_up.py`."""
    better_claims: dict[LogKey, Completeness] = field(default_factory=dict)
    """Logs that were opened after this process had claimed that they are unreadable. Written by
    `engine/metadata_quorum/apply_committed.py`."""
    isr: IsrChanges = field(default_factory=IsrChanges)
    """ISR changes of the partitions that are led here."""
    counters: ReplicaCounters = field(default_factory=ReplicaCounters)
    restored: int = 0
    """Damaged ranges that could be read again. Written by `engine/replicas/repair/repairs.py` and
    `engine/replicas/repair/substitute_reads.py`."""
    traffic: TrafficTable = field(default_factory=TrafficTable)
