"""One replica of a partition: may it be written and read, how far, by whom.

Rules:
- only a leader takes appends and answers clients; a request that names a leader epoch is judged by
  it (KIP-320): an older one is fenced, a newer one is not known here yet;
- acks=all is refused while fewer than `min.insync.replicas` replicas are in sync;
- the high watermark is the smallest log end of the in-sync replicas; it never falls under one
  leader epoch; consumers read below it.

The log itself is not seen here: its end is an argument, its failures are its own.
"""

from enum import Enum

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.core.image import PartitionEntry
from josefine_broker.core.leader_epochs import LeaderEpochs
from josefine_broker.core.producers import BatchMark, ProducerState
from josefine_broker.records.batch import NO_PRODUCER_ID, BatchHeader

ACKS_ALL = -1
CONSUMER_REPLICA_ID = -1
DEBUG_REPLICA_ID = -2
"""A consumer that may read up to the log end (Kafka's Request.DebuggingConsumerId)."""


class ReplicaState(Enum):
    """What this replica does."""

    OPENED = "opened"  # its log is recovered; the image has not yet told its role
    LEADER = "leader"  # takes appends, answers consumers


class ReplicaEvent(Enum):
    """What happens to a replica."""

    LEAD = "lead"  # the image names this broker as leader, perhaps under a new epoch


TRANSITIONS: dict[tuple[ReplicaState, ReplicaEvent], ReplicaState] = {
    (ReplicaState.OPENED, ReplicaEvent.LEAD): ReplicaState.LEADER,
    (ReplicaState.LEADER, ReplicaEvent.LEAD): ReplicaState.LEADER,
}


class Partition:
    """The deciding part of one hosted replica."""

    __slots__ = (
        "appended_bytes",
        "epochs",
        "high_watermark",
        "isr",
        "leader_epoch",
        "min_insync_replicas",
        "producers",
        "replicas",
        "state",
    )

    def __init__(self, producers: ProducerState, epochs: LeaderEpochs) -> None:
        self.state = ReplicaState.OPENED
        self.producers = producers
        self.epochs = epochs
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        self.high_watermark = 0
        self.appended_bytes = 0
        """Bytes ever appended while hosted: what a waiting fetch compares (KIP-74's min_bytes)."""

    @property
    def last_stable_offset(self) -> int:
        """How far read_committed sees (KIP-98): the high watermark while no transaction is open."""
        return self.high_watermark

    def lead(self, entry: PartitionEntry, log_end_offset: int) -> bool:
        """The image says that this replica leads; whether that is under a new epoch."""
        if entry.leader_epoch < self.leader_epoch:
            raise Fatal(f"leader epoch {entry.leader_epoch} after {self.leader_epoch}")
        self._on(ReplicaEvent.LEAD)
        self.replicas = entry.replicas
        self.isr = entry.isr
        self._advance_high_watermark(log_end_offset)
        self.leader_epoch = entry.leader_epoch
        return self.epochs.assign(entry.leader_epoch, log_end_offset)

    def check_serves(self, current_leader_epoch: int = -1) -> None:
        """Raises KafkaError unless this replica answers clients at that epoch (-1: any)."""
        if self.state is not ReplicaState.LEADER:
            raise KafkaError(ErrorCode.not_leader_or_follower, "this broker does not lead")
        if current_leader_epoch not in (-1, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.fenced_leader_epoch, f"now is {self.leader_epoch}")
            raise KafkaError(ErrorCode.unknown_leader_epoch, f"known is {self.leader_epoch}")

    def check_append(self, header: BatchHeader, acks: int) -> BatchMark | None:
        """Judge a client's batch: None to append it, or the mark of the stored one it repeats.

        Raises KafkaError; then nothing may be appended.
        """
        if self.state is not ReplicaState.LEADER:
            raise KafkaError(ErrorCode.not_leader_or_follower, "this broker does not lead")
        if acks == ACKS_ALL and len(self.isr) < self.min_insync_replicas:
            raise KafkaError(
                ErrorCode.not_enough_replicas,
                f"{len(self.isr)} in sync, {self.min_insync_replicas} needed",
            )
        if header.producer_id == NO_PRODUCER_ID:
            return None
        return self.producers.check(header)

    def appended(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """The judged batch is in the log at `base_offset`."""
        if header.producer_id != NO_PRODUCER_ID:
            self.producers.record(header, base_offset, now_ms)
        self.appended_bytes += header.batch_length + 12
        self._advance_high_watermark(base_offset + header.last_offset_delta + 1)

    def readable_end(self, replica_id: int, log_end_offset: int) -> int:
        """The offset (exclusive) up to which this reader may see records."""
        if replica_id == CONSUMER_REPLICA_ID:
            return self.high_watermark
        if replica_id == DEBUG_REPLICA_ID:
            return log_end_offset
        raise KafkaError(
            ErrorCode.not_leader_or_follower, f"broker {replica_id} is no replica of this partition"
        )

    def _advance_high_watermark(self, log_end_offset: int) -> None:
        # The in-sync replicas are this one: issue 3 runs one broker. Followers' log ends join here.
        if log_end_offset > self.high_watermark:
            self.high_watermark = log_end_offset

    def _on(self, event: ReplicaEvent) -> None:
        next_state = TRANSITIONS.get((self.state, event))
        if next_state is None:
            raise Fatal(f"replica {self.state.value}: unlisted event {event.value}")
        self.state = next_state
