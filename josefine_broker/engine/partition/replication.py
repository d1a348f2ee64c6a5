"""A partition leader's view of its followers: how far each has come, and who is in sync.

Rules:
- the high watermark waits for every replica that may be in the ISR: those of the committed one,
  those of a proposal in flight (Kafka's maximal ISR), and those about to be proposed ("joining"),
  or a follower under steady load would never reach the watermark that runs before it;
- a replica is proposed only once it has every record below the high watermark and the first offset
  of this leader's epoch (KIP-101), so each member of an ISR has every committed record;
- a replica is behind since it last had all that this leader had then; after
  `replica.lag.time.max.ms` it is proposed to leave. An idle partition's followers are never behind;
- one proposal per partition is open at a time; what it asks for counts until it is known that it
  was refused.

Times are monotonic milliseconds. Nothing here looks at a log: ends are arguments.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from josefine_broker.engine.metadata.image import PartitionEntry

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)
REFUSED_WAIT_MS = 500
"""A refused ISR proposal is not made again at once: the image must move, or a broker return."""


@dataclass(slots=True)
class Follower:
    """One follower as its fetches tell; `end_offset` is how far its log is durable."""

    broker_epoch: int = -1
    """Of the incarnation that this is known of."""
    end_offset: int = UNKNOWN_OFFSET
    start_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = NEVER_MS
    """When it last had everything."""
    fetched_ms: int = NEVER_MS
    """When it last asked; at first, when it began to be waited for."""
    leader_end_then: int = 2**63 - 1
    """Where the leader's log ended at its last fetch."""


@dataclass(slots=True)
class IsrChanges:
    """The ISR changes of a broker's partitions on their way: one proposal at a time, for all that
    are due, so that a thousand partitions losing one follower are one block."""

    due: dict[tuple[str, int], None] = field(default_factory=dict)
    is_open: bool = False


class Followers:
    """The followers of one led partition, and the ISR as committed, proposed and wanted."""

    __slots__ = (
        "_followers",
        "_waited_for",
        "is_changing",
        "isr",
        "joining",
        "leader",
        "partition_epoch",
        "pending",
        "replicas",
        "retry_at_ms",
    )

    def __init__(self, entry: PartitionEntry, now_ms: int) -> None:
        """A new leader epoch: nothing is known of anybody; the in-sync get a whole lag time."""
        self.leader = entry.leader
        self.replicas = entry.replicas
        self.isr = entry.isr
        self.partition_epoch = entry.partition_epoch
        self.pending: frozenset[int] = frozenset()
        """Members that a proposal in flight adds."""
        self.is_changing = False
        """A proposal is in flight."""
        self.joining: frozenset[int] = frozenset()
        self.retry_at_ms = NEVER_MS
        self._followers = {
            broker_id: Follower(
                caught_up_ms=now_ms if broker_id in entry.isr else NEVER_MS, fetched_ms=now_ms
            )
            for broker_id in entry.replicas
            if broker_id != entry.leader
        }
        self._waited_for: tuple[Follower, ...] = ()
        self._settle_waits()

    def update(self, entry: PartitionEntry, now_ms: int) -> None:
        """The image changed replicas or ISR within the leader epoch."""
        if entry.partition_epoch != self.partition_epoch:
            self.pending = frozenset()  # proposals for the epoch before fit no more
            self.is_changing = False
            self.retry_at_ms = NEVER_MS
        for broker_id in entry.isr:
            follower = self._followers.get(broker_id)
            if follower is not None and broker_id not in self.isr:
                follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        self.replicas, self.isr = entry.replicas, entry.isr
        self.partition_epoch = entry.partition_epoch
        self._followers = {
            broker_id: self._followers.get(broker_id) or Follower(fetched_ms=now_ms)
            for broker_id in entry.replicas
            if broker_id != self.leader
        }
        for broker_id in entry.isr:
            if broker_id != self.leader and self._followers[broker_id].caught_up_ms == NEVER_MS:
                self._followers[broker_id].caught_up_ms = now_ms
        self.joining = (self.joining & self._followers.keys()) - set(entry.isr)
        self._settle_waits()

    def get(self, broker_id: int) -> Follower | None:
        return self._followers.get(broker_id)

    def appended(self, base_offset: int, now_ms: int) -> None:
        """The log grew from `base_offset`: whoever had all before had it until now."""
        for follower in self._followers.values():
            if follower.end_offset == base_offset:
                follower.caught_up_ms = now_ms

    def fetched(
        self,
        broker_id: int,
        fetch_offset: int,
        start_offset: int,
        log_end_offset: int,
        now_ms: int,
        *,
        may_join: bool,
        broker_epoch: int = -1,
    ) -> None:
        """A follower asks for `fetch_offset`: it has all before. `may_join`: it is live."""
        follower = self._followers[broker_id]
        if broker_epoch != follower.broker_epoch:  # a new process: what the old one had is no word
            follower.broker_epoch = broker_epoch
            follower.leader_end_then = 2**63 - 1
            self.joining -= {broker_id}
            self._settle_waits()
        has_all = fetch_offset >= log_end_offset
        if has_all:
            follower.caught_up_ms = now_ms
        elif fetch_offset >= follower.leader_end_then:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
            has_all = True  # all there was when it asked before: it keeps pace
        follower.end_offset = fetch_offset
        follower.start_offset = start_offset
        follower.fetched_ms = now_ms
        follower.leader_end_then = log_end_offset
        if has_all and may_join and broker_id not in self.isr and broker_id not in self.joining:
            self.joining |= {broker_id}
            self._settle_waits()

    def committed_end(self, durable_end_offset: int) -> int:
        """How far every replica that may be in sync has come, the leader's own log being durable so
        far; -1 while one is unknown."""
        end = durable_end_offset
        for follower in self._waited_for:
            if follower.end_offset < end:
                end = follower.end_offset
        return end

    def are_silent(self, since_ms: int) -> bool:
        """Whether none of those that the high watermark waits for has asked since then."""
        waited_for = self._waited_for
        return bool(waited_for) and all(each.fetched_ms < since_ms for each in waited_for)

    def behind(self, log_end_offset: int, now_ms: int, lag_time_max_ms: int) -> frozenset[int]:
        """Followers that have not had everything for too long."""
        return frozenset(
            broker_id
            for broker_id, follower in self._followers.items()
            if follower.end_offset != log_end_offset
            and now_ms - follower.caught_up_ms > lag_time_max_ms
        )

    def drop_joining(self, broker_ids: Iterable[int]) -> bool:
        """These do not join after all, unless a proposal for them is in flight."""
        left = self.joining - frozenset(broker_ids)
        if left == self.joining:
            return False
        self.joining = left
        self._settle_waits()
        return True

    def wanted_isr(
        self, high_watermark: int, epoch_start: int, behind: frozenset[int], now_ms: int
    ) -> tuple[int, ...] | None:
        """The ISR to propose, in replica order; None when it is as it should be or one is open."""
        if self.is_changing or now_ms < self.retry_at_ms:
            return None
        needed = max(high_watermark, epoch_start)
        members = set(self.isr) - behind
        members |= {
            broker_id
            for broker_id in self.joining
            if self._followers[broker_id].end_offset >= needed
        }
        if members == set(self.isr):
            return None
        return tuple(broker_id for broker_id in self.replicas if broker_id in members)

    def joined(self, isr: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """(broker, broker epoch) of those whom `isr` adds."""
        return tuple(
            (broker_id, self._followers[broker_id].broker_epoch)
            for broker_id in isr
            if broker_id != self.leader and broker_id not in self.isr
        )

    def begin_change(self, isr: Iterable[int]) -> None:
        """`isr` is proposed: what it adds counts as in sync until the answer is known."""
        self.is_changing = True
        self.pending = frozenset(isr) - set(self.isr)
        self._settle_waits()

    def end_change(self, partition_epoch: int, now_ms: int, *, refused: bool) -> None:
        """The answer to a proposal made at `partition_epoch`. In doubt (not `refused`, and the
        image did not move) what it adds still counts, but it may be made again."""
        if partition_epoch != self.partition_epoch:
            return  # the image moved: `update` has settled it
        self.is_changing = False
        self.retry_at_ms = now_ms + REFUSED_WAIT_MS
        if refused:
            self.pending = frozenset()
            self._settle_waits()

    def _settle_waits(self) -> None:
        waited_for = (set(self.isr) | self.pending | self.joining) - {self.leader}
        self._waited_for = tuple(
            follower for broker_id, follower in self._followers.items() if broker_id in waited_for
        )
