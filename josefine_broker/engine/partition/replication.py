"""The followers of one led partition: their end offsets, and the ISR (committed, proposed, wanted).

Rules:
- the high watermark waits for every replica that may be in the ISR: the members of the committed
  ISR, the members that a proposal in flight adds (Kafka's maximal ISR), and the joining followers
  that are about to be proposed. Without the last group, a follower under steady load would never
  reach a watermark that always advances before it;
- a replica is proposed only once it has every record below the high watermark and the first offset
  of this leader's epoch (KIP-101), so each ISR member has every committed record;
- a replica lags from the moment when it last had everything that this leader had then. After
  `replica.lag.time.max.ms` the leader proposes to remove it. Followers of an idle partition never
  lag;
- one proposal per partition is in flight at a time. Its members count as in sync until the leader
  knows that it was refused.

Times are monotonic milliseconds. Nothing here reads a log: end offsets are arguments.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from josefine_broker.engine.metadata.image import PartitionEntry

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)
REFUSED_WAIT_MS = 500
"""How long until a refused ISR proposal is repeated: the image must move, or a broker return."""


@dataclass(slots=True)
class Follower:
    """One follower, as known from its fetches; `end_offset` is how far its log is durable."""

    broker_epoch: int = -1
    """The broker epoch (process incarnation) that the other fields are of."""
    end_offset: int = UNKNOWN_OFFSET
    start_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = NEVER_MS
    """When it last had every record of the leader."""
    fetched_ms: int = NEVER_MS
    """When it last fetched; initially when the leader started to wait for it."""
    leader_end_then: int = 2**63 - 1
    """The leader's log end offset at that fetch."""


@dataclass(slots=True)
class IsrChanges:
    """The pending ISR changes of all led partitions. One proposal at a time carries all that are
    due, so a thousand partitions that lose one follower cost one metadata block."""

    due: dict[tuple[str, int], None] = field(default_factory=dict)
    is_open: bool = False


class Followers:
    """The followers of one led partition, and its ISR as committed, proposed and wanted."""

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
        """State of a new leader epoch: no end offset is known, and each ISR member gets a full lag
        time before it can be removed."""
        self.leader = entry.leader
        self.replicas = entry.replicas
        self.isr = entry.isr
        self.partition_epoch = entry.partition_epoch
        self.pending: frozenset[int] = frozenset()
        """Members that a proposal in flight adds."""
        self.is_changing = False
        """A proposal is in flight."""
        self.joining: frozenset[int] = frozenset()
        """Followers that have caught up and are about to be proposed."""
        self.retry_at_ms = NEVER_MS
        """No proposal before this time, after one that was not accepted."""
        self._followers = {
            broker_id: Follower(
                caught_up_ms=now_ms if broker_id in entry.isr else NEVER_MS, fetched_ms=now_ms
            )
            for broker_id in entry.replicas
            if broker_id != entry.leader
        }
        self._waited_for: tuple[Follower, ...] = ()
        """Whom the high watermark waits for: kept, because every fetch and append asks for it."""
        self._settle_waits()

    def update(self, entry: PartitionEntry, now_ms: int) -> None:
        """Take a change of replicas or ISR within the leader epoch."""
        if entry.partition_epoch != self.partition_epoch:
            self.pending = frozenset()  # proposals for the previous partition epoch are void
            self.is_changing = False
            self.retry_at_ms = NEVER_MS
        # A member that has just joined gets a full lag time before it can be removed.
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
        """The log grew from `base_offset`: followers at that offset had everything until now."""
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
        """A follower fetches from `fetch_offset`, so it has every record below. `may_join`: the
        broker is live and may enter the ISR."""
        follower = self._followers[broker_id]
        # A restarted broker may have lost what its predecessor had fetched but not synced, so its
        # position has to be confirmed by a fetch of the new incarnation (KIP-903).
        if broker_epoch != follower.broker_epoch:
            follower.broker_epoch = broker_epoch
            follower.leader_end_then = 2**63 - 1
            self.joining -= {broker_id}
            self._settle_waits()
        has_all = fetch_offset >= log_end_offset
        if has_all:
            follower.caught_up_ms = now_ms
        elif fetch_offset >= follower.leader_end_then:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
            has_all = True  # it has all that existed at its previous fetch: it keeps up
        follower.end_offset = fetch_offset
        follower.start_offset = start_offset
        follower.fetched_ms = now_ms
        follower.leader_end_then = log_end_offset
        if has_all and may_join and broker_id not in self.isr and broker_id not in self.joining:
            self.joining |= {broker_id}
            self._settle_waits()

    def committed_end(self, durable_end_offset: int) -> int:
        """The smallest end offset of the replicas that may be in sync, the leader's own durable
        end included; -1 while one of them is unknown."""
        end = durable_end_offset
        for follower in self._waited_for:
            if follower.end_offset < end:
                end = follower.end_offset
        return end

    def are_silent(self, since_ms: int) -> bool:
        """Whether no follower that the high watermark waits for has fetched since then."""
        waited_for = self._waited_for
        return bool(waited_for) and all(each.fetched_ms < since_ms for each in waited_for)

    def behind(self, log_end_offset: int, now_ms: int, lag_time_max_ms: int) -> frozenset[int]:
        """Followers that lag for longer than `lag_time_max_ms`."""
        return frozenset(
            broker_id
            for broker_id, follower in self._followers.items()
            if follower.end_offset != log_end_offset
            and now_ms - follower.caught_up_ms > lag_time_max_ms
        )

    def drop_joining(self, broker_ids: Iterable[int]) -> bool:
        """Remove these from the joining followers; returns whether any was one."""
        left = self.joining - frozenset(broker_ids)
        if left == self.joining:
            return False
        self.joining = left
        self._settle_waits()
        return True

    def wanted_isr(
        self, high_watermark: int, epoch_start: int, behind: frozenset[int], now_ms: int
    ) -> tuple[int, ...] | None:
        """The ISR to propose, in replica order; None when the ISR is right or a proposal is in
        flight."""
        if self.is_changing or now_ms < self.retry_at_ms:
            return None
        # With less, it could lack a record that is committed already: at the start of an epoch the
        # high watermark may be lower than that of the leader before.
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
        """(broker, broker epoch) of each member that `isr` adds."""
        return tuple(
            (broker_id, self._followers[broker_id].broker_epoch)
            for broker_id in isr
            if broker_id != self.leader and broker_id not in self.isr
        )

    def begin_change(self, isr: Iterable[int]) -> None:
        """Note that `isr` was proposed: what it adds counts as in sync until the answer is
        known."""
        self.is_changing = True
        self.pending = frozenset(isr) - set(self.isr)
        self._settle_waits()

    def end_change(self, partition_epoch: int, now_ms: int, *, refused: bool) -> None:
        """The answer to a proposal made at `partition_epoch`. Without a clear answer (not
        `refused`, and the image did not move) its members still count, and it may be repeated."""
        if partition_epoch != self.partition_epoch:
            return  # the image moved: `update` has handled the answer
        self.is_changing = False
        self.retry_at_ms = now_ms + REFUSED_WAIT_MS
        if refused:
            self.pending = frozenset()
            self._settle_waits()

    def _settle_waits(self) -> None:
        """To be called after each change of ISR, pending or joining members."""
        if not self._followers:
            return  # the only replica, of which there may be thousands
        waited_for = (set(self.isr) | self.pending | self.joining) - {self.leader}
        self._waited_for = tuple(
            follower for broker_id, follower in self._followers.items() if broker_id in waited_for
        )
