"""Batches of idempotent producers that were refused before they were appended, by producer.

A producer has up to five batches on their way (KIP-98). When the first of them meets a broker that
does not lead yet, or has too few replicas in sync, and the next one meets it a moment later, the
next one is no gap in the sequence: the first will come again. Told OUT_OF_ORDER_SEQUENCE_NUMBER,
librdkafka raises the epoch of all its partitions, and what others of them have stored unanswered is
stored twice; where the producer is not known at all, the next one would be taken as its beginning.

Rule: behind a refused batch every later one of the same producer and epoch is refused with the same
error, until the refused one is here, from the producer or by replication. One that is here leaves
those behind it that were refused, too: the first of them that is missing is waited for then.

A batch that was appended here and cut away again, unconfirmed, under another leader is as good as
refused: those behind it may still be on their way here when this replica leads once more.
"""

from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.partition.producers import SEQUENCE_MAX, ProducerEntry, next_sequence
from josefine_broker.records.batch import NO_PRODUCER_ID, BatchHeader

PRODUCERS_MAX = 1_000
"""Past it the oldest is forgotten: no refused producer costs memory for ever."""

PARTITIONS_MAX = 1_000
"""Of those that are not here, as many are remembered."""

HELD_BACK_MAX = 100
"""So many of a producer's later batches are held back; then it goes on without the refused batch,
and its earliest of those held back is waited for: it judges whether there is a gap."""


class _Refused:
    """The refused batches of a producer: where the earliest begins, and the newest; how many were
    held back behind it since, and the earliest of those."""

    __slots__ = ("code", "epoch", "held_back", "newest", "oldest_held", "sequence")

    def __init__(self, epoch: ProducerEpoch, sequence: int, newest: int, code: ErrorCode) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.newest = newest
        self.code = code
        self.held_back = 0
        self.oldest_held = newest


def _is_before(a: int, b: int) -> bool:
    """Of two sequences near each other; they wrap."""
    return 0 < ((b - a) & SEQUENCE_MAX) < 2**30


def _later(a: int, b: int) -> int:
    return b if _is_before(a, b) else a


class Refusals:
    """Of one partition; false while there are none."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, _Refused] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def note(self, header: BatchHeader, code: ErrorCode) -> None:
        """This batch was refused for a reason that may be gone when it comes again."""
        if header.producer_id != NO_PRODUCER_ID:
            self._note(header.producer_id, header.producer_epoch, header.base_sequence, code)

    def note_cut(self, producer_id: ProducerId, epoch: ProducerEpoch, sequence: int) -> None:
        """A batch that begins with this sequence was here, and is cut away again."""
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
        """These were refused before the partition was opened."""
        self._by_producer |= others._by_producer

    def holding_back(self, header: BatchHeader, entry: ProducerEntry | None) -> ErrorCode | None:
        """The error for a batch behind a refused one; None: judge it by its sequence. `entry` is
        what the log knows of its producer."""
        refused = self._by_producer.get(header.producer_id)
        if refused is None:
            return None
        is_same = header.producer_epoch == refused.epoch
        if entry is not None and entry.epoch == refused.epoch:
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
    """Of partitions that are not here, yet perhaps: their first batches may come before the block
    that creates them does."""

    __slots__ = ("_by_partition",)

    def __init__(self) -> None:
        self._by_partition: dict[tuple[str | UUID, int], Refusals] = {}

    def __len__(self) -> int:
        return len(self._by_partition)

    def note(self, topic: str | UUID, partition: int, header: BatchHeader) -> None:
        """A batch for it was refused. Those behind it will have met a broker that does not lead."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        refusals = self._by_partition.setdefault((topic, partition), Refusals())
        refusals.note(header, ErrorCode.not_leader_or_follower)
        if len(self._by_partition) > PARTITIONS_MAX:
            del self._by_partition[next(iter(self._by_partition))]

    def take(self, topic: str | UUID, partition: int) -> Refusals:
        """It is opened now."""
        return self._by_partition.pop((topic, partition), Refusals())
