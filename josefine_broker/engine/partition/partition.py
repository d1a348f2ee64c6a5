"""One replica of a partition: may it be written and read, how far, by whom.

Rules:
- only a leader takes appends; a request that names a leader epoch is judged by it (KIP-320): an
  older one is fenced, a newer one is not known here yet;
- acks=all is refused while fewer than `min.insync.replicas` replicas are in sync; a producer's
  batches behind a refused one are refused like it (`engine/partition/refusals.py`);
- the high watermark is the smallest durable end of the replicas that may be in sync (where a log
  need not be synced for its records to count, its end); it does not move
  while fewer than `min.insync.replicas` are (KIP-966), and a leader's never falls within its epoch;
- consumers read below it, at followers too (KIP-392); followers read to the log end;
- a new leader does not tell its high watermark before it has passed the epoch's start (KIP-207);
- a follower gives up records below its high watermark only to a leader that was elected uncleanly
  since they were written: a clean one has them, or its log is damaged.

The log itself is not seen here: its ends are arguments, its failures are its own.
"""

from collections import deque
from enum import Enum

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.base.ids import LeaderEpoch, ProducerEpoch, ProducerId
from josefine_broker.engine.metadata.image import NO_LEADER, PartitionEntry
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.producers import BatchMark, ProducerState
from josefine_broker.engine.partition.refusals import Refusals
from josefine_broker.engine.partition.replication import Followers
from josefine_broker.records.batch import NO_LEADER_EPOCH, NO_PRODUCER_ID, BatchHeader
from josefine_broker.records.control import Marker, read_marker
from josefine_broker.records.crc import Buffer

ACKS_ALL = -1
CONSUMER_REPLICA_ID = -1
DEBUG_REPLICA_ID = -2
"""A consumer that may read up to the log end (Kafka's Request.DebuggingConsumerId)."""


STRANDED = "neither controller nor followers reach this broker"


class ReplicaState(Enum):
    """What this replica does."""

    OPENED = "opened"  # its log is recovered; the image has not yet told its role
    LEADER = "leader"  # takes appends, answers clients and followers
    FOLLOWER = "follower"  # copies its leader, if there is one; answers consumers that read here


class ReplicaEvent(Enum):
    """What happens to a replica."""

    LEAD = "lead"  # the image names this broker as leader, perhaps under a new epoch
    FOLLOW = "follow"  # the image names another leader, or none


TRANSITIONS: dict[tuple[ReplicaState, ReplicaEvent], ReplicaState] = {
    (ReplicaState.OPENED, ReplicaEvent.LEAD): ReplicaState.LEADER,
    (ReplicaState.OPENED, ReplicaEvent.FOLLOW): ReplicaState.FOLLOWER,
    (ReplicaState.LEADER, ReplicaEvent.LEAD): ReplicaState.LEADER,
    (ReplicaState.LEADER, ReplicaEvent.FOLLOW): ReplicaState.FOLLOWER,
    (ReplicaState.FOLLOWER, ReplicaEvent.LEAD): ReplicaState.LEADER,
    (ReplicaState.FOLLOWER, ReplicaEvent.FOLLOW): ReplicaState.FOLLOWER,
}


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
        """Where the log ended when this replica began to lead."""
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.followers: Followers | None = None
        """Of a leader; else None."""
        self.is_alone = False
        """Leads without any other replica: what is durable is committed."""
        self.is_stranded = False
        """Leads, but neither controller nor followers reach it: others have a new leader by now."""
        self.min_insync_replicas = 1
        self.unclean_epoch = NO_LEADER_EPOCH
        """The last leader epoch that an unclean election began."""
        self.high_watermark = high_watermark
        self.appended_bytes = 0
        """Bytes ever appended while hosted: what a waiting fetch compares (KIP-74's min_bytes)."""
        self.committed_bytes = 0
        """Those of them that are below the high watermark: what a waiting consumer compares."""
        producers.transactions.committed(high_watermark)
        self._uncommitted: deque[tuple[int, int]] = deque()
        """(end offset, appended_bytes) of each batch above the high watermark."""

    @property
    def last_stable_offset(self) -> int:
        """How far read_committed sees (KIP-98): the high watermark while no transaction is open.
        Records before the log start that are gone may leave it there."""
        transactions = self.producers.transactions
        if transactions.are_settled:
            return self.high_watermark
        return transactions.stable_end(self.high_watermark)

    @property
    def is_leader(self) -> bool:
        return self.state is ReplicaState.LEADER

    @property
    def knows_high_watermark(self) -> bool:
        """False while a new leader's high watermark may be behind its predecessor's (KIP-207)."""
        return self.high_watermark >= self.epoch_start_offset

    # Roles.

    def lead(
        self,
        entry: PartitionEntry,
        log_end_offset: int,
        now_ms: int,
        durable_end_offset: int | None = None,
    ) -> bool:
        """The image says that this replica leads; whether that is under a new epoch.

        `durable_end_offset` here and below: how far our log counts; None: to its end."""
        self._check_epoch(entry)
        is_new = entry.leader_epoch > self.leader_epoch or not self.is_leader
        self._on(ReplicaEvent.LEAD)
        self._take(entry)
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
        """The image names another leader or none; whether leader or epoch are new."""
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
        # An epoch that wrote nothing here must not be named as the last one fetched.
        self.epochs.truncate_end(log_end_offset)
        return is_new

    def _check_epoch(self, entry: PartitionEntry) -> None:
        if entry.leader_epoch < self.leader_epoch:
            raise Fatal(f"leader epoch {entry.leader_epoch} after {self.leader_epoch}")

    def _take(self, entry: PartitionEntry) -> None:
        self.leader, self.leader_epoch = entry.leader, entry.leader_epoch
        self.replicas, self.isr = entry.replicas, entry.isr
        self.unclean_epoch = entry.unclean_epoch

    # What a request may do.

    def check_serves(self, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> None:
        """Raises KafkaError unless this replica leads, at that epoch (-1: any)."""
        if self.state is not ReplicaState.LEADER:
            raise KafkaError(ErrorCode.not_leader_or_follower, "this broker does not lead")
        if current_leader_epoch not in (-1, self.leader_epoch):
            self._refuse_epoch(current_leader_epoch)

    def check_reads(self, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> None:
        """Raises KafkaError unless consumers may read here, at that epoch (KIP-392; below 0: any,
        as in Kafka for Fetch alone)."""
        if self.state is ReplicaState.OPENED:
            raise KafkaError(ErrorCode.not_leader_or_follower, "this replica has no role yet")
        if current_leader_epoch not in (-1, self.leader_epoch) and current_leader_epoch >= 0:
            self._refuse_epoch(current_leader_epoch)

    def _refuse_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch, f"now is {self.leader_epoch}")
        raise KafkaError(ErrorCode.unknown_leader_epoch, f"known is {self.leader_epoch}")

    def check_append(self, header: BatchHeader, acks: int) -> BatchMark | None:
        """Judge a client's batch: None to append it, or the mark of the stored one it repeats.

        Raises KafkaError; then nothing may be appended.
        """
        try:
            self._check_takes(acks)
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

    def _check_takes(self, acks: int) -> None:
        """Raises KafkaError unless this replica takes appends now."""
        if self.state is not ReplicaState.LEADER:
            raise KafkaError(ErrorCode.not_leader_or_follower, "this broker does not lead")
        if acks != ACKS_ALL:
            return
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
        """Judge a marker that a coordinator wants written. Raises KafkaError; then nothing may be
        appended."""
        self._check_takes(ACKS_ALL)
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
            ErrorCode.not_leader_or_follower, f"broker {replica_id} is no replica of this partition"
        )

    def has_follower(self, replica_id: int) -> bool:
        return self.followers is not None and self.followers.get(replica_id) is not None

    def diverging(
        self, fetch_offset: int, last_fetched_epoch: LeaderEpoch, log_end_offset: int
    ) -> tuple[LeaderEpoch, int] | None:
        """Where a follower's log parts from ours: (epoch, end offset) of the largest epoch not
        above its last one; None when it does not (KIP-595, KIP-279).

        Raises KafkaError(offset_out_of_range) when we do not know.
        """
        epoch, end_offset = self.epochs.end_of(last_fetched_epoch, log_end_offset)
        if epoch < 0:
            raise KafkaError(ErrorCode.offset_out_of_range, f"epoch {last_fetched_epoch} unknown")
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    # What happened to the log.

    def appended(
        self,
        header: BatchHeader,
        base_offset: int,
        now_ms: int,
        marker: Marker | None = None,
        durable_end_offset: int | None = None,
    ) -> None:
        """The judged batch, or marker, is in the log at `base_offset`. `now_ms` is of the wall
        clock."""
        if marker is not None:
            self.producers.end(header, marker, base_offset, now_ms)
        elif header.producer_id != NO_PRODUCER_ID:
            self.producers.record(header, base_offset, now_ms)
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

    def copied(self, header: BatchHeader, batch: Buffer, now_ms: int) -> bool:
        """A batch of the leader is in the log where the leader has it; whether its epoch is new.
        Raises CorruptData."""
        marker = read_marker(batch) if header.is_control else None
        self.appended(header, header.base_offset, now_ms, marker)
        return self.epochs.assign(header.leader_epoch, header.base_offset)

    def may_be_cut_to(self, end_offset: int) -> bool:
        """Whether a leader may take what lies behind `end_offset` from this follower."""
        return end_offset >= self.high_watermark or self.unclean_epoch > self.epochs.latest

    def truncated(self, log_end_offset: int) -> None:
        """The log now ends there: what was above it is forgotten. Producers are the caller's."""
        self._note_cut(log_end_offset)
        self.epochs.truncate_end(log_end_offset)
        self.high_watermark = min(self.high_watermark, log_end_offset)
        while self._uncommitted and self._uncommitted[-1][0] > log_end_offset:
            self._uncommitted.pop()

    def restarted(self, offset: int) -> None:
        """The log was emptied and goes on at `offset`: what its producers sent since the last batch
        that was here, nobody knows here. Any sequence of theirs may come next. Of a transaction
        the marker may be gone: none is open."""
        self._note_cut(offset)
        self.producers.clear()
        self.epochs.clear()
        self.high_watermark = offset
        self._uncommitted.clear()

    def started_at(self, log_start_offset: int) -> None:
        """What was before that in the log is gone."""
        self.epochs.truncate_start(log_start_offset)
        self.producers.transactions.forget_before(log_start_offset)

    def _note_cut(self, end_offset: int) -> None:
        """Its producers know of no confirmation for what lay past it and the high watermark, and
        send that again."""
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
        """A follower has all before `fetch_offset`; whether the high watermark moved."""
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
        """As far as the replicas that may be in sync have come; whether it moved."""
        followers = self.followers
        if followers is None or self.is_under_min_isr:
            return False
        return self._commit(followers.committed_end(durable_end_offset))

    def follow_high_watermark(self, leaders: int, durable_end_offset: int) -> bool:
        """The leader's high watermark, as far as our log goes; whether ours moved."""
        return self._commit(min(leaders, durable_end_offset))

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but no more than there are replicas."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Too few replicas in sync: acks=all is refused, and nothing is committed."""
        return len(self.isr) < self.effective_min_isr

    def _commit(self, end_offset: int) -> bool:
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
        """The ISR this leader should propose now; None when there is nothing to propose. Who was
        about to join and is behind is waited for no longer: the high watermark may move."""
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
        next_state = TRANSITIONS.get((self.state, event))
        if next_state is None:
            raise Fatal(f"replica {self.state.value}: unlisted event {event.value}")
        self.state = next_state
