"""A hosted replica of a partition: its role, what requests may read and write, its watermarks.

Rules:
- only a leader accepts appends. A request that names a leader epoch is checked against ours
  (KIP-320): an older epoch is fenced, a newer one is not known here yet;
- acks=all is refused while fewer than `min.insync.replicas` replicas are in sync. After a refused
  batch, the producer's later batches get the same error (`engine/partition/refusals.py`);
- the high watermark is the smallest durable end offset of the replicas that may be in sync (the
  log end offset, where records count without fsync). It does not move while fewer than
  `min.insync.replicas` replicas are in sync (KIP-966), and a leader's never falls within its epoch;
- consumers read below the high watermark, also from followers (KIP-392); followers read up to the
  log end offset;
- a new leader does not report its high watermark until it has passed the start of its epoch
  (KIP-207);
- a follower truncates below its high watermark only for a leader of an unclean election that is
  newer than those records. A clean leader has them, so without one the log is damaged.

This module never touches the log: its end offsets are arguments, its failures are handled there.
"""

from collections import deque
from collections.abc import Iterable

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.base.ids import LeaderEpoch, ProducerEpoch, ProducerId
from josefine_broker.engine.metadata.image import NO_LEADER, PartitionEntry
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.producers import BatchMark, ProducerState
from josefine_broker.engine.partition.refusals import Refusals
from josefine_broker.engine.partition.replica_role import TRANSITIONS, ReplicaEvent, ReplicaState
from josefine_broker.engine.partition.replication import Followers
from josefine_broker.records.batch import NO_LEADER_EPOCH, NO_PRODUCER_ID, BatchHeader
from josefine_broker.records.control import Marker, read_marker
from josefine_broker.records.crc import Buffer

ACKS_ALL = -1
CONSUMER_REPLICA_ID = -1
DEBUG_REPLICA_ID = -2
"""A consumer that may read up to the log end (Kafka's Request.DebuggingConsumerId). Repairs read as
one: of a leader and of followers, also while their logs are repaired."""


STRANDED = "neither controller nor followers reach this broker"


class Partition:
    """The deciding part of one hosted replica."""

    __slots__ = (
        "_uncommitted",
        "appended_bytes",
        "committed_bytes",
        "epoch_start_offset",
        "epochs",
        "followers",
        "high_watermark",
        "is_alone",
        "is_stranded",
        "isr",
        "leader",
        "leader_epoch",
        "min_insync_replicas",
        "producers",
        "refusals",
        "replicas",
        "state",
        "unclean_epoch",
    )

    def __init__(
        self, producers: ProducerState, epochs: LeaderEpochs, high_watermark: int = 0
    ) -> None:
        self.state = ReplicaState.OPENED
        self.producers = producers
        self.refusals = Refusals()
        self.epochs = epochs
        self.leader = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.epoch_start_offset = 0
        """The log end offset when this replica became leader."""
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.followers: Followers | None = None
        """Set on a leader only."""
        self.is_alone = False
        """The leader is the only replica: every durable record is committed."""
        self.is_stranded = False
        """A leader that neither controller nor followers reach: the others may have elected a new
        one by now."""
        self.min_insync_replicas = 1
        self.unclean_epoch = NO_LEADER_EPOCH
        """The leader epoch of the last unclean election."""
        self.high_watermark = high_watermark
        self.appended_bytes = 0
        """Bytes appended since this replica was opened; a waiting fetch compares it with
        `min_bytes` (KIP-74)."""
        self.committed_bytes = 0
        """The part of `appended_bytes` below the high watermark; waiting consumers compare it."""
        # Recovery has read every marker in the log; those below the high watermark are settled.
        producers.transactions.committed(high_watermark)
        self._uncommitted: deque[tuple[int, int]] = deque()
        """(end offset, appended_bytes) of each batch above the high watermark."""

    @property
    def last_stable_offset(self) -> int:
        """The end offset (exclusive) of read_committed (KIP-98): the high watermark while no
        transaction is open. Below the log start offset when records of an open one were deleted."""
        transactions = self.producers.transactions
        if transactions.are_settled:
            return self.high_watermark
        return transactions.stable_end(self.high_watermark)

    @property
    def is_leader(self) -> bool:
        return self.state is ReplicaState.LEADER

    @property
    def knows_high_watermark(self) -> bool:
        """False while a new leader's high watermark may be lower than its predecessor's
        (KIP-207)."""
        return self.high_watermark >= self.epoch_start_offset

    # Roles.

    def lead(
        self,
        entry: PartitionEntry,
        log_end_offset: int,
        now_ms: int,
        durable_end_offset: int | None = None,
    ) -> bool:
        """Take the leader role that the image assigns; returns whether the leader epoch is new.

        `durable_end_offset`, here and below: the end of the records that count as stored; None
        means the log end offset."""
        self._check_epoch(entry)
        is_new = entry.leader_epoch > self.leader_epoch or not self.is_leader
        self._on(ReplicaEvent.LEAD)
        self._take(entry)
        # A new epoch knows nothing about its followers' logs. Offsets from an earlier epoch may
        # be of records that have been truncated since, and must not move the high watermark.
        if is_new or self.followers is None:
            self.followers = Followers(entry, now_ms)
            self.epoch_start_offset = log_end_offset
            self.epochs.truncate_end(log_end_offset)
            self.epochs.assign(entry.leader_epoch, log_end_offset)
        else:
            self.followers.update(entry, now_ms)
        self.is_alone = len(self.replicas) == 1
        self.is_stranded = False
        self.advance_high_watermark(
            log_end_offset if durable_end_offset is None else durable_end_offset
        )
        return is_new

    def follow(self, entry: PartitionEntry, log_end_offset: int) -> bool:
        """Follow the leader that the image names, if any; returns whether leader or epoch are
        new."""
        self._check_epoch(entry)
        is_new = (
            (entry.leader, entry.leader_epoch) != (self.leader, self.leader_epoch)
        ) or self.state is not ReplicaState.FOLLOWER
        self._on(ReplicaEvent.FOLLOW)
        self._take(entry)
        self.followers = None
        self.is_alone = False
        self.is_stranded = False
        self.epoch_start_offset = 0
        # An epoch that wrote nothing here must not be sent as the last fetched epoch.
        self.epochs.truncate_end(log_end_offset)
        return is_new

    def assign(self, entry: PartitionEntry) -> None:
        """Note the role in the image: it is taken once the log is repaired."""
        self._check_epoch(entry)
        self._take(entry)
        self.followers = None
        self.is_alone = False

    @property
    def awaits_repair(self) -> bool:
        """Whether it takes no role before its log is repaired."""
        return self.state is ReplicaState.REPAIRING

    def damaged(self) -> None:
        """The producers' state lacks batches: a duplicate would be stored, and an aborted
        transaction delivered. So it serves nothing, as leader or follower."""
        self._on(ReplicaEvent.DAMAGED)

    def doubted(self, entry: PartitionEntry) -> None:
        """It is to lead, and asks the other replicas first for what its log may lack."""
        self._on(ReplicaEvent.DOUBTED)
        self.assign(entry)

    def repaired(self) -> None:
        """The log is whole and was replayed: the role can be taken."""
        self._on(ReplicaEvent.REPAIRED)

    def _check_epoch(self, entry: PartitionEntry) -> None:
        if entry.leader_epoch < self.leader_epoch:
            raise Fatal(f"leader epoch {entry.leader_epoch} after {self.leader_epoch}")

    def _take(self, entry: PartitionEntry) -> None:
        self.leader, self.leader_epoch = entry.leader, entry.leader_epoch
        self.replicas, self.isr = entry.replicas, entry.isr
        self.unclean_epoch = entry.unclean_epoch

    # What a request may do.

    def check_serves(self, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> None:
        """Raises KafkaError unless this replica leads, under that leader epoch (-1: any)."""
        if self.state is not ReplicaState.LEADER:
            raise KafkaError(ErrorCode.not_leader_or_follower, "this broker does not lead")
        if current_leader_epoch not in (-1, self.leader_epoch):
            self._refuse_epoch(current_leader_epoch)

    def check_reads(self, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> None:
        """Raises KafkaError unless consumers may read here, under that leader epoch (KIP-392).
        A negative epoch matches any, as Kafka has it for Fetch alone."""
        if self.state not in (ReplicaState.LEADER, ReplicaState.FOLLOWER):
            raise KafkaError(ErrorCode.not_leader_or_follower, "this replica has no role yet")
        if current_leader_epoch not in (-1, self.leader_epoch) and current_leader_epoch >= 0:
            self._refuse_epoch(current_leader_epoch)

    def _refuse_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Raises KafkaError: fenced for an older epoch, unknown for a newer one, after which a
        client refreshes or retries (KIP-320)."""
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch, f"current epoch is {self.leader_epoch}")
        raise KafkaError(
            ErrorCode.unknown_leader_epoch, f"newest known epoch is {self.leader_epoch}"
        )

    def check_append(self, header: BatchHeader, acks: int) -> BatchMark | None:
        """Check a client's batch: None to append it, or the stored batch that it duplicates.

        Raises KafkaError; then nothing may be appended.
        """
        try:
            self.check_takes(acks)
        except KafkaError as error:
            self.refusals.note(header, error.code)
            raise
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return None
        if self.refusals:
            code = self.refusals.holding_back(header, self.producers.entry(producer_id))
            if code is not None:
                raise KafkaError(code, "an earlier batch of this producer was refused")
        return self.producers.check(header)

    def check_takes(self, acks: int) -> None:
        """Raises KafkaError unless this replica accepts appends now."""
        if self.state is not ReplicaState.LEADER:
            raise KafkaError(ErrorCode.not_leader_or_follower, "this broker does not lead")
        # The checks below are about the promise of acks=all: acks 0 and 1 ask for no replica.
        if acks != ACKS_ALL:
            return
        # The others may have elected a leader that this append would never reach.
        if self.is_stranded:
            raise KafkaError(ErrorCode.not_leader_or_follower, STRANDED)
        if self.is_under_min_isr:
            raise KafkaError(
                ErrorCode.not_enough_replicas,
                f"{len(self.isr)} in sync, {self.effective_min_isr} needed",
            )

    def check_marker(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        coordinator_epoch: int,
        *,
        raises_epoch: bool = False,
    ) -> None:
        """Check a marker that a coordinator wants to write. Raises KafkaError; then nothing may be
        appended."""
        self.check_takes(ACKS_ALL)
        self.producers.check_marker(
            producer_id, epoch, coordinator_epoch, raises_epoch=raises_epoch
        )

    def readable_end(self, replica_id: int, log_end_offset: int) -> int:
        """The offset (exclusive) up to which this reader may see records."""
        if replica_id == CONSUMER_REPLICA_ID:
            return self.high_watermark
        if replica_id == DEBUG_REPLICA_ID or self.has_follower(replica_id):
            return log_end_offset
        raise KafkaError(
            ErrorCode.not_leader_or_follower,
            f"broker {replica_id} is not a replica of this partition",
        )

    def has_follower(self, replica_id: int) -> bool:
        """Whether this leader has that replica in the image's assignment."""
        return self.followers is not None and self.followers.get(replica_id) is not None

    def diverging(
        self, fetch_offset: int, fetched_epoch: LeaderEpoch, log_end_offset: int, *, has_holes: bool
    ) -> tuple[LeaderEpoch, int] | None:
        """Where a follower's log diverges from ours: (epoch, end offset) of the largest epoch not
        above the follower's last one; None when it does not diverge (KIP-595, KIP-279).
        `has_holes`: the first batches of an epoch may have been cleaned away here.

        Raises KafkaError(offset_out_of_range) for an epoch that is unknown here.
        """
        epoch, end_offset = self.epochs.end_of(fetched_epoch, log_end_offset)
        if epoch < 0:
            raise KafkaError(ErrorCode.offset_out_of_range, f"epoch {fetched_epoch} unknown")
        # The follower has records of an epoch that is unknown here, or more of the last common one.
        if epoch < fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        # An epoch has one start. A log that ends before it has its last epoch from a flipped bit.
        return None if has_holes else self.epochs.end_before(epoch, fetch_offset)

    # What happened to the log.

    def appended(
        self,
        header: BatchHeader,
        base_offset: int,
        now_ms: int,
        marker: Marker | None = None,
        durable_end_offset: int | None = None,
    ) -> None:
        """Note that the checked batch or marker is in the log at `base_offset`. `now_ms` is wall
        clock time."""
        if marker is not None:
            self.producers.end(header, marker, base_offset, now_ms)
        elif header.producer_id != NO_PRODUCER_ID:
            self.producers.record(header, base_offset, now_ms)
        # 12: the base offset and the length itself, which the length does not count.
        self.appended_bytes += header.batch_length + 12
        end_offset = base_offset + header.last_offset_delta + 1
        if self.is_alone and (durable_end_offset is None or durable_end_offset >= end_offset):
            self._uncommitted.clear()
            self.high_watermark = end_offset
            self.committed_bytes = self.appended_bytes
            if marker is not None:
                self.producers.transactions.committed(end_offset)
        else:
            self._uncommitted.append((end_offset, self.appended_bytes))

    def appended_together(
        self,
        records: int,
        size_bytes: int,
        sizes: Iterable[tuple[int, int]],
        base_offset: int,
        durable_end_offset: int,
    ) -> None:
        """Note that checked batches are in the log from `base_offset` on; `sizes`: records and
        bytes of each, where there are several. The caller remembers their producers."""
        end_offset = base_offset + records
        if self.is_alone and durable_end_offset >= end_offset:
            self._uncommitted.clear()
            self.high_watermark = end_offset
            self.appended_bytes += size_bytes
            self.committed_bytes = self.appended_bytes
            return
        end_offset = base_offset
        for count, size in sizes or ((records, size_bytes),):
            end_offset += count
            self.appended_bytes += size
            self._uncommitted.append((end_offset, self.appended_bytes))

    def copied(self, header: BatchHeader, batch: Buffer, now_ms: int) -> bool:
        """Note that a batch of the leader was copied to the same offset; returns whether its epoch
        is new here. Raises CorruptData."""
        marker = read_marker(batch) if header.is_control else None
        is_new = self.epochs.assign(header.leader_epoch, header.base_offset)
        self.appended(header, header.base_offset, now_ms, marker)
        return is_new

    def may_be_cut_to(self, end_offset: int) -> bool:
        """Whether a leader may make this follower truncate its log to `end_offset`."""
        return end_offset >= self.high_watermark or self.unclean_epoch > self.epochs.latest

    def truncated(self, log_end_offset: int) -> None:
        """The log was truncated to this end offset. The caller restores the producer state."""
        # Before the producers are restored: the batches that are cut are known only until then.
        self._note_cut(log_end_offset)
        self.epochs.truncate_end(log_end_offset)
        self.high_watermark = min(self.high_watermark, log_end_offset)
        while self._uncommitted and self._uncommitted[-1][0] > log_end_offset:
            self._uncommitted.pop()

    def restarted(self, offset: int) -> None:
        """The log was emptied and continues at `offset`. The producers' state is forgotten: they
        may have sent more in the lost range, so any sequence number is accepted next. Open
        transactions are forgotten too, because their markers may lie in the lost range."""
        self._note_cut(offset)
        self.producers.clear()
        self.epochs.clear()
        self.high_watermark = offset
        self._uncommitted.clear()

    def started_at(self, log_start_offset: int) -> None:
        """Records below this offset were deleted."""
        self.epochs.truncate_start(log_start_offset)
        self.producers.transactions.forget_before(log_start_offset)

    def _note_cut(self, end_offset: int) -> None:
        """Records past the new end and past the high watermark were never acknowledged: their
        producers will send them again."""
        for batch in self.producers.batches_from(max(end_offset, self.high_watermark)):
            self.refusals.note_cut(*batch)

    # The high watermark.

    def follower_fetched(
        self,
        replica_id: int,
        fetch_offset: int,
        start_offset: int,
        log_end_offset: int,
        now_ms: int,
        *,
        may_join: bool,
        broker_epoch: int = -1,
        durable_end_offset: int | None = None,
    ) -> bool:
        """A follower has every record below `fetch_offset`; returns whether the high watermark
        moved."""
        assert self.followers is not None
        self.followers.fetched(
            replica_id,
            fetch_offset,
            start_offset,
            log_end_offset,
            now_ms,
            may_join=may_join,
            broker_epoch=broker_epoch,
        )
        return self.advance_high_watermark(
            log_end_offset if durable_end_offset is None else durable_end_offset
        )

    def advance_high_watermark(self, durable_end_offset: int) -> bool:
        """Move the high watermark to the smallest end offset of the replicas that may be in sync;
        returns whether it moved."""
        followers = self.followers
        # KIP-966: below min.insync.replicas nothing is committed, or an election from the ISR
        # that is left could lose records that consumers have read already.
        if followers is None or self.is_under_min_isr:
            return False
        return self._commit(followers.committed_end(durable_end_offset))

    def follow_high_watermark(self, leaders: int, durable_end_offset: int) -> bool:
        """Take the leader's high watermark, limited to our own log; returns whether ours moved."""
        return self._commit(min(leaders, durable_end_offset))

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, limited to the number of replicas."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Too few replicas in sync: acks=all is refused, and nothing is committed."""
        return len(self.isr) < self.min_insync_replicas and len(self.isr) < len(self.replicas)

    def _commit(self, end_offset: int) -> bool:
        """Move the high watermark up to `end_offset`, never down; returns whether it moved."""
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        if not self.producers.transactions.are_settled:
            self.producers.transactions.committed(end_offset)
        uncommitted = self._uncommitted
        while uncommitted and uncommitted[0][0] <= end_offset:
            self.committed_bytes = uncommitted.popleft()[1]
        return True

    def wanted_isr(
        self,
        log_end_offset: int,
        now_ms: int,
        lag_time_max_ms: int,
        durable_end_offset: int | None = None,
    ) -> tuple[int, ...] | None:
        """The ISR that this leader should propose now; None when there is nothing to propose.
        A joining follower that lags no longer holds back the high watermark, which may move."""
        followers = self.followers
        if followers is None:
            return None
        behind = followers.behind(log_end_offset, now_ms, lag_time_max_ms)
        if behind and followers.drop_joining(behind):
            self.advance_high_watermark(
                log_end_offset if durable_end_offset is None else durable_end_offset
            )
        return followers.wanted_isr(self.high_watermark, self.epoch_start_offset, behind, now_ms)

    def _on(self, event: ReplicaEvent) -> None:
        """Follow the transition table. Raises Fatal for an event that is not listed."""
        next_state = TRANSITIONS.get((self.state, event))
        if next_state is None:
            raise Fatal(f"replica {self.state.value}: unlisted event {event.value}")
        self.state = next_state
