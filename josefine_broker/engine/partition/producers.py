"""The producer state of a partition: which batches each producer may write (KIP-98, KIP-360).

Rules, as in Kafka 4:
- a batch with the epoch and sequence numbers of one of the producer's last five batches is a
  duplicate: it is answered with the offsets of the stored one and never stored again;
- within an epoch, sequence numbers have no gap; they wrap from 2**31 - 1 to 0;
- an older epoch is fenced: INVALID_PRODUCER_EPOCH;
- a newer epoch starts at sequence 0;
- an unknown producer (new, expired, or its records deleted) may start at any sequence:
  UNKNOWN_PRODUCER_ID is never sent since KIP-360, because lost state must not fail a producer;
- a producer that is silent for `expiration_ms` is forgotten (KIP-854), unless its transaction is
  open;
- while its transaction is open, a producer writes nothing outside of it: INVALID_TXN_STATE;
- a marker fences older epochs of its producer, and coordinators of older epochs
  (TRANSACTION_COORDINATOR_FENCED); a new epoch that a marker starts begins with sequence 0.

`check` and `check_marker` decide and change nothing; `record` and `end` follow once the batch is in
the log; `take` does either, for recovery and followers. Snapshots carry a version; the log adds
their checksum.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, ProducerEpoch, ProducerId
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.transactions import Transactions
from josefine_broker.records.batch import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from josefine_broker.records.control import Marker, read_marker
from josefine_broker.records.crc import Buffer

SEQUENCE_MAX = 2**31 - 1
REMEMBERED_BATCHES = 5
"""As many as a producer may have in flight (KIP-98: max.in.flight.requests.per.connection)."""

EXPIRATION_MS = 24 * 3600 * 1000
"""`producer.id.expiration.ms`, Kafka's default (KIP-854)."""

NO_COORDINATOR_EPOCH = -1

PLAIN_VERSION = 1
"""Snapshot version without transactions, readable by older brokers."""
SNAPSHOT_VERSION = 2
"""Adds the coordinator epoch of each producer's last marker, and the transactions."""
_SNAPSHOT_HEAD = Struct(">hi")
_COORDINATOR = Struct(">i")
_ENTRY_HEAD = Struct(">qhqb")
_MARK = Struct(">iiqq")

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much

SentBatch = tuple[ProducerId, ProducerEpoch, int, int]
"""A batch as its producer sent it: producer id, epoch, first sequence number, records."""


class BatchMark(NamedTuple):
    """A stored batch: what is needed to recognize a duplicate and to answer it."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp_ms: int


class ProducerEntry(NamedTuple):
    """One producer: its epoch, when it was last seen, its last batches (the newest last)."""

    epoch: ProducerEpoch
    seen_ms: int
    marks: tuple[BatchMark, ...]
    """Empty when a marker started the epoch and no batch has followed."""
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    """The coordinator epoch of its last marker."""

    @property
    def next_sequence(self) -> int:
        """The first sequence number of its next batch in this epoch."""
        return next_sequence(self.marks[-1].last_sequence) if self.marks else 0


def next_sequence(sequence: int) -> int:
    """The sequence after this one; they wrap to 0 (KIP-98)."""
    return 0 if sequence == SEQUENCE_MAX else sequence + 1


class ProducerState:
    """All producers of one partition, and their transactions."""

    __slots__ = ("_entries", "_epochs", "_mirrored_end", "_mirrored_epoch", "transactions")

    def __init__(self) -> None:
        self._epochs = LeaderEpochs()
        self._mirrored_end = 0
        self._mirrored_epoch = NO_LEADER_EPOCH
        self._entries: dict[ProducerId, ProducerEntry] = {}
        self.transactions = Transactions()

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, producer_id: ProducerId) -> ProducerEntry | None:
        """What is remembered of a producer; None: nothing, so any sequence number is accepted."""
        return self._entries.get(producer_id)

    def is_in_transaction(self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool:
        """Whether a transaction of the producer is open here, under that epoch."""
        entry = self._entries.get(producer_id)
        is_current = entry is not None and entry.epoch == epoch
        return is_current and self.transactions.open_of(producer_id) is not None

    def last_batches(self) -> dict[ProducerId, int]:
        """Producer id → base offset of its last batch, which recovery must find in the log."""
        return {
            producer_id: entry.marks[-1].base_offset
            for producer_id, entry in self._entries.items()
            if entry.marks
        }

    def entries(self) -> Iterator[tuple[ProducerId, ProducerEntry]]:
        """By producer id."""
        return iter(sorted(self._entries.items()))

    def check(self, header: BatchHeader) -> BatchMark | None:
        """Check a client's batch: None to store it, or the stored batch that it duplicates.

        Raises KafkaError(invalid_producer_epoch | out_of_order_sequence_number |
        invalid_txn_state).
        """
        entry = self._entries.get(header.producer_id)
        # Any sequence number is accepted (KIP-360): state that expired here must not end a
        # producer.
        if entry is None:
            return None
        first = header.base_sequence
        if header.producer_epoch == entry.epoch:
            if first == entry.next_sequence:
                self._check_transaction(header)
                return None
            last = header.last_sequence
            # A retry of any of the last five batches: the client may have five requests in flight
            # and lose the connection before the first answer (KIP-98).
            for mark in entry.marks:
                if mark.first_sequence == first and mark.last_sequence == last:
                    return mark
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} sent sequence {first}, "
                f"expected {entry.next_sequence}",
            )
        if header.producer_epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"producer {header.producer_id} has epoch {entry.epoch}, "
                f"the batch is of epoch {header.producer_epoch}",
            )
        # A producer starts each epoch at 0: after a gap, its first batches are missing.
        if first != 0:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} began epoch {header.producer_epoch} "
                f"at sequence {first}, expected 0",
            )
        self._check_transaction(header)
        return None

    def _check_transaction(self, header: BatchHeader) -> None:
        """Raises KafkaError(invalid_txn_state): such a record would be visible before the
        transaction ends, between records that may be aborted."""
        if header.attributes & TRANSACTIONAL_BIT or self.transactions.are_settled:
            return
        if self.transactions.open_of(header.producer_id) is not None:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} wrote outside of its open transaction",
            )

    def check_marker(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        coordinator_epoch: int,
        *,
        raises_epoch: bool = False,
    ) -> None:
        """Check a marker that a coordinator wants to write. `raises_epoch`: the marker ends a
        transaction of the previous epoch, so a transaction that is open under the marker's own
        epoch is already the next one, and must not be ended (KIP-1228).
        Raises KafkaError(invalid_producer_epoch | transaction_coordinator_fenced)."""
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        # A late marker, of an older epoch or of a deposed coordinator, could end a transaction that
        # began after it was sent.
        if epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id} has epoch {entry.epoch}, the marker is of epoch {epoch}",
            )
        if raises_epoch and self.is_in_transaction(producer_id, epoch):
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id} is in the next transaction, of epoch {epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.transaction_coordinator_fenced,
                f"a coordinator of epoch {entry.coordinator_epoch} has written since",
            )

    def continues(self, batches: Iterable[SentBatch]) -> bool:
        """Whether `check` would store each of these batches once the ones before it are stored,
        because it has the next sequence number of a producer that is known here. None of them is
        transactional. False: `check` decides, one batch at a time."""
        entries, is_settled = self._entries, self.transactions.are_settled
        expected: dict[ProducerId, int] = {}
        for producer_id, epoch, first_sequence, records in batches:
            if producer_id == NO_PRODUCER_ID:
                continue
            entry = entries.get(producer_id)
            if entry is None or entry.epoch != epoch:
                return False
            if first_sequence != expected.get(producer_id, entry.next_sequence):
                return False
            # A batch outside of its producer's open transaction is an error.
            if not is_settled and self.transactions.open_of(producer_id) is not None:
                return False
            expected[producer_id] = (first_sequence + records) & SEQUENCE_MAX
        return True

    def record_next(
        self, batches: Iterable[tuple[SentBatch, int]], base_offset: int, now_ms: int
    ) -> None:
        """Remember, as `record` does, batches that `continues` has approved: each with its largest
        timestamp, stored from `base_offset` on."""
        entries = self._entries
        for (producer_id, epoch, first_sequence, records), max_timestamp_ms in batches:
            if producer_id != NO_PRODUCER_ID:
                _, _, marks, coordinator_epoch = entries[producer_id]
                last_sequence = (first_sequence + records - 1) & SEQUENCE_MAX
                stored = (first_sequence, last_sequence, base_offset, max_timestamp_ms)
                marks = (*marks[1 - REMEMBERED_BATCHES :], _new(BatchMark, stored))
                fields = (epoch, now_ms, marks, coordinator_epoch)
                entries[producer_id] = _new(ProducerEntry, fields)
            base_offset += records

    def record(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Remember a stored batch. `now_ms` is the broker's clock, also in recovery: record
        timestamps may be years old, and would expire a producer at each restart."""
        if header.producer_id == NO_PRODUCER_ID or header.is_control:
            return
        if self._is_mirrored(base_offset):  # a replay
            if header.attributes & TRANSACTIONAL_BIT:
                self.transactions.begin(header.producer_id, base_offset, now_ms)
            return
        mark = BatchMark(
            header.base_sequence, header.last_sequence, base_offset, header.max_timestamp_ms
        )
        entry = self._entries.get(header.producer_id)
        coordinator_epoch = NO_COORDINATOR_EPOCH if entry is None else entry.coordinator_epoch
        if entry is None or entry.epoch != header.producer_epoch:
            marks: tuple[BatchMark, ...] = (mark,)
        else:
            # The last four and this one.
            marks = (*entry.marks[1 - REMEMBERED_BATCHES :], mark)
        self._entries[header.producer_id] = ProducerEntry(
            header.producer_epoch, now_ms, marks, coordinator_epoch
        )
        if header.attributes & TRANSACTIONAL_BIT:
            self.transactions.begin(header.producer_id, base_offset, now_ms)

    def end(self, header: BatchHeader, marker: Marker, base_offset: int, now_ms: int) -> None:
        """End the producer's transaction: its marker is in the log."""
        if self._is_mirrored(base_offset):  # a replay
            self.transactions.end(header.producer_id, base_offset, is_commit=marker.is_commit)
            return
        entry = self._entries.get(header.producer_id)
        # Under a new epoch, which a marker may start (KIP-890), the sequence numbers begin again.
        is_known = entry is not None and entry.epoch == header.producer_epoch
        marks = entry.marks if entry is not None and is_known else ()
        self._entries[header.producer_id] = ProducerEntry(
            header.producer_epoch, now_ms, marks, marker.coordinator_epoch
        )
        self.transactions.end(header.producer_id, base_offset, is_commit=marker.is_commit)

    def take(self, header: BatchHeader, batch: Buffer, now_ms: int) -> None:
        """Take a batch of any kind that is in the log at its base offset. Raises CorruptData."""
        if not header.is_control:
            self.record(header, header.base_offset, now_ms)
            return
        marker = read_marker(batch)
        if marker is not None:
            self.end(header, marker, header.base_offset, now_ms)

    def forget_mirrored(
        self,
        end_offset: int,
        epoch: LeaderEpoch = NO_LEADER_EPOCH,
        epochs: LeaderEpochs | None = None,
    ) -> None:
        """The batches below this offset were mirrored from another cluster, which gave its
        producers ids of its own: one of this cluster with the same id is another producer. A batch
        that looked like a duplicate would be acknowledged and not stored.

        `epoch` is that of the leader then, if it is known, and `epochs` are this log's: what a
        later one wrote was written here, where an unclean election had cut the log."""
        self._epochs = epochs or self._epochs
        if (end_offset, epoch) != (self._mirrored_end, self._mirrored_epoch):
            self._mirrored_end, self._mirrored_epoch = end_offset, epoch
            self._forget_mirrored()

    def _is_mirrored(self, offset: int) -> bool:
        if offset >= self._mirrored_end or self._mirrored_epoch == NO_LEADER_EPOCH:
            return offset < self._mirrored_end
        ours_from = self._epochs.start_after(self._mirrored_epoch)
        return ours_from is None or offset < ours_from

    def _forget_mirrored(self) -> None:
        for producer_id, entry in list(self._entries.items()):
            marks = tuple(mark for mark in entry.marks if not self._is_mirrored(mark.base_offset))
            if marks:
                fields = (entry.epoch, entry.seen_ms, marks, entry.coordinator_epoch)
                self._entries[producer_id] = ProducerEntry(*fields)
            elif self.transactions.open_of(producer_id) is None:
                del self._entries[producer_id]

    def expire(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> int:
        """Forget the producers that are silent for `expiration_ms`; returns how many.

        `now_ms`: the clock of `record`. Memory grows with the producers that are remembered, and
        each new process of a client without a transactional id is another one (KIP-854).
        """
        oldest_ms = now_ms - expiration_ms
        silent = [
            producer_id
            for producer_id, entry in self._entries.items()
            # Without this state, a late marker could end the transaction.
            if entry.seen_ms <= oldest_ms and self.transactions.open_of(producer_id) is None
        ]
        for producer_id in silent:
            del self._entries[producer_id]
        return len(silent)

    def reaches(self, offset: int) -> bool:
        """Whether a remembered batch or marker is at or past `offset`, so that a truncation to it
        invalidates this state."""
        return self.transactions.reaches(offset) or any(
            entry.marks[-1].base_offset >= offset for entry in self._entries.values() if entry.marks
        )

    def batches_from(self, offset: int) -> Iterator[tuple[ProducerId, ProducerEpoch, int]]:
        """(producer id, epoch, first sequence) of the remembered batches at or past `offset`, in
        order for each producer."""
        for producer_id, entry in self._entries.items():
            for mark in entry.marks:
                if mark.base_offset >= offset:
                    yield producer_id, entry.epoch, mark.first_sequence

    def clear(self) -> None:
        """Forget everything: the log was truncated, or its replay starts over."""
        self._entries.clear()
        self.transactions.clear()

    def snapshot(self) -> bytes:
        """The state as bytes, in the oldest version that can hold it."""
        has_markers = any(not entry.marks for entry in self._entries.values())
        is_plain = self.transactions.is_empty and not has_markers
        version = PLAIN_VERSION if is_plain else SNAPSHOT_VERSION
        parts = [_SNAPSHOT_HEAD.pack(version, len(self._entries))]
        for producer_id, (epoch, seen_ms, marks, coordinator_epoch) in self.entries():
            parts.append(_ENTRY_HEAD.pack(producer_id, epoch, seen_ms, len(marks)))
            if not is_plain:
                parts.append(_COORDINATOR.pack(coordinator_epoch))
            parts.extend(_MARK.pack(*mark) for mark in marks)
        if not is_plain:
            parts.append(self.transactions.snapshot())
        return b"".join(parts)

    def restore(self, data: bytes) -> None:
        """Restore what `snapshot` wrote. Raises CorruptData, and then nothing has changed."""
        version, entries, rest = _read_snapshot(data)
        if version == PLAIN_VERSION:
            self.transactions.clear()
        else:
            self.transactions.restore(rest)
        self._entries = dict(entries)
        if self._mirrored_end:
            self._forget_mirrored()


def _read_snapshot(
    data: bytes,
) -> tuple[int, Iterable[tuple[ProducerId, ProducerEntry]], bytes]:
    """Its version, the producers, and the bytes of the transactions. Raises CorruptData."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptData(f"producer snapshot of {len(data)} bytes")
    version, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version not in (PLAIN_VERSION, SNAPSHOT_VERSION):
        raise CorruptData(f"producer snapshot of version {version}, known is {SNAPSHOT_VERSION}")
    pos, entries = _SNAPSHOT_HEAD.size, []
    for _ in range(count):
        if len(data) - pos < _ENTRY_HEAD.size:
            raise CorruptData(f"producer snapshot ends at byte {len(data)} within an entry")
        producer_id, epoch, seen_ms, mark_count = _ENTRY_HEAD.unpack_from(data, pos)
        pos += _ENTRY_HEAD.size
        coordinator_epoch = NO_COORDINATOR_EPOCH
        # Within an entry this field is all that version 2 adds; a rest that is too short is found
        # below.
        if version != PLAIN_VERSION and len(data) - pos >= _COORDINATOR.size:
            coordinator_epoch = _COORDINATOR.unpack_from(data, pos)[0]
            pos += _COORDINATOR.size
        end = pos + mark_count * _MARK.size
        least = 1 if version == PLAIN_VERSION else 0
        if not least <= mark_count <= REMEMBERED_BATCHES or end > len(data):
            raise CorruptData(f"producer snapshot: producer {producer_id}, {mark_count} batches")
        marks = tuple(BatchMark(*fields) for fields in _MARK.iter_unpack(data[pos:end]))
        entries.append((producer_id, ProducerEntry(epoch, seen_ms, marks, coordinator_epoch)))
        pos = end
    if version == PLAIN_VERSION and pos != len(data):
        raise CorruptData(f"producer snapshot with {len(data) - pos} bytes past its end")
    return version, entries, data[pos:]
