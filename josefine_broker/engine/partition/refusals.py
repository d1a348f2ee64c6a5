"""Refused batches of idempotent producers: later batches must not overtake them.

A producer has up to five batches in flight (KIP-98). Suppose the first one reaches a broker that
does not lead yet, or has too few replicas in sync, and the second one arrives a moment later, when
the broker would accept it. The second one is not a gap in the sequence: the producer will send the
first one again. If the broker answered OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka would raise the
epoch for all its partitions, and batches that other partitions stored but have not acknowledged
would be stored twice. If the producer is unknown here, the second batch would be taken as its
first.

Rule: after a refused batch, every later batch of the same producer and epoch is refused with the
same error until the refused one has arrived, from the producer or by replication. If later batches
were refused as well, the first missing one of them is awaited next.

A batch that was appended here without acknowledgement, and truncated under another leader, counts
as refused: its successors may still be in flight when this replica leads again.
"""

from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.partition.producers import SEQUENCE_MAX, ProducerEntry, next_sequence
from josefine_broker.records.batch import NO_PRODUCER_ID, BatchHeader

PRODUCERS_MAX = 1_000
"""Above this the oldest is forgotten, so that refused producers do not use memory forever."""

PARTITIONS_MAX = 1_000
"""How many partitions that are not hosted here are remembered."""

HELD_BACK_MAX = 100
"""How many later batches of a producer are held back. After that the refused batch is given up, and
the earliest held-back batch is awaited: its sequence number shows whether there is a gap."""


class _Refused:
    """A producer's refused batches: the sequence of the earliest one and of the newest one, how
    many later ones were held back since, and the earliest of these."""

    __slots__ = ("code", "epoch", "held_back", "newest", "oldest_held", "sequence")

    def __init__(self, epoch: ProducerEpoch, sequence: int, newest: int, code: ErrorCode) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.newest = newest
        self.code = code
        self.held_back = 0
        self.oldest_held = newest


def _is_before(a: int, b: int) -> bool:
    """Whether sequence `a` is before `b`; they are near each other and wrap."""
    return 0 < ((b - a) & SEQUENCE_MAX) < 2**30


def _later(a: int, b: int) -> int:
    return b if _is_before(a, b) else a


class Refusals:
    """The refused batches of one partition; false while there are none."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, _Refused] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def note(self, header: BatchHeader, code: ErrorCode) -> None:
        """Note a batch that was refused for a reason that may be gone when it is sent again."""
        if header.producer_id != NO_PRODUCER_ID:
            self._note(header.producer_id, header.producer_epoch, header.base_sequence, code)

    def note_cut(self, producer_id: ProducerId, epoch: ProducerEpoch, sequence: int) -> None:
        """Note that the batch with this first sequence was appended here and then truncated."""
        self._note(producer_id, epoch, sequence, ErrorCode.not_leader_or_follower)

    def _note(
        self, producer_id: ProducerId, epoch: ProducerEpoch, sequence: int, code: ErrorCode
    ) -> None:
        known = self._by_producer.get(producer_id)
        newest = sequence
        if known is not None and known.epoch == epoch:
            newest = known.newest = _later(known.newest, sequence)
            if not _is_before(sequence, known.sequence):
                return
        self._by_producer[producer_id] = _Refused(epoch, sequence, newest, code)
        if len(self._by_producer) > PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]

    def absorb(self, others: "Refusals") -> None:
        """Add batches that were refused before the partition was opened."""
        self._by_producer |= others._by_producer

    def holding_back(self, header: BatchHeader, entry: ProducerEntry | None) -> ErrorCode | None:
        """The error for a batch that follows a refused one; None: check its sequence as usual.
        `entry` is the producer's entry in the partition's state."""
        refused = self._by_producer.get(header.producer_id)
        if refused is None:
            return None
        is_same = header.producer_epoch == refused.epoch
        if entry is not None and entry.epoch == refused.epoch:
            # Replication may have brought the refused batch here from another leader: then the
            # first sequence that the log lacks is awaited.
            refused.sequence = _later(refused.sequence, entry.next_sequence)
        sequence = header.base_sequence
        if not is_same or _is_before(refused.newest, refused.sequence):
            del self._by_producer[header.producer_id]
            return None
        if _is_before(sequence, refused.sequence):
            return None
        if refused.held_back == HELD_BACK_MAX:
            refused.sequence, refused.held_back = refused.oldest_held, 0
        if sequence == refused.sequence:
            refused.sequence = next_sequence(header.last_sequence)
            if _is_before(refused.newest, refused.sequence):
                del self._by_producer[header.producer_id]
            return None
        is_oldest = not refused.held_back or _is_before(sequence, refused.oldest_held)
        refused.oldest_held = sequence if is_oldest else refused.oldest_held
        refused.held_back += 1
        refused.newest = _later(refused.newest, sequence)
        return refused.code


class EarlyRefusals:
    """Refused batches of partitions that are not opened here yet: a producer's first batch may
    arrive before the metadata block that creates the partition."""

    __slots__ = ("_by_partition",)

    def __init__(self) -> None:
        self._by_partition: dict[tuple[str | UUID, int], Refusals] = {}

    def __len__(self) -> int:
        return len(self._by_partition)

    def note(self, topic: str | UUID, partition: int, header: BatchHeader) -> None:
        """Note that a batch for it was refused: this broker did not lead the partition."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        refusals = self._by_partition.setdefault((topic, partition), Refusals())
        refusals.note(header, ErrorCode.not_leader_or_follower)
        if len(self._by_partition) > PARTITIONS_MAX:
            del self._by_partition[next(iter(self._by_partition))]

    def take(self, topic: str | UUID, partition: int) -> Refusals:
        """Remove and return the refused batches of a partition that is being opened."""
        return self._by_partition.pop((topic, partition), Refusals())
