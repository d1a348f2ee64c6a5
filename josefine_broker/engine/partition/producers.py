"""What a partition remembers of its idempotent producers, and the sequence rules (KIP-98, KIP-360).

Rules, as Kafka 4 has them:
- a batch equal in epoch and sequences to one of the producer's last five is a duplicate: answered
  with the offsets it was stored at, never stored again;
- within an epoch, sequences have no gap; they wrap from 2**31 - 1 to 0;
- an older epoch is fenced: INVALID_PRODUCER_EPOCH;
- a newer epoch starts at sequence 0;
- a producer that is not known (new, expired, or its records deleted) may start at any sequence:
  UNKNOWN_PRODUCER_ID is never sent since KIP-360, lost state is no reason to fail a producer;
- a producer silent for `expiration_ms` is forgotten (KIP-854).

`check` decides and changes nothing; `record` follows once the batch is in the log, and is all that
recovery calls. The snapshot is versioned; its checksum is the log's business.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.records.batch import NO_PRODUCER_ID, BatchHeader

SEQUENCE_MAX = 2**31 - 1
REMEMBERED_BATCHES = 5
"""As many as a producer may have in flight (KIP-98: max.in.flight.requests.per.connection)."""

EXPIRATION_MS = 24 * 3600 * 1000
"""`producer.id.expiration.ms`, Kafka's default (KIP-854)."""

SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = Struct(">hi")
_ENTRY_HEAD = Struct(">qhqb")
_MARK = Struct(">iiqq")


class BatchMark(NamedTuple):
    """A stored batch, as far as a retry of it must be answered."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp_ms: int


class ProducerEntry(NamedTuple):
    """One producer: its epoch, when it was last seen, its last batches (the newest last)."""

    epoch: ProducerEpoch
    seen_ms: int
    marks: tuple[BatchMark, ...]


def next_sequence(sequence: int) -> int:
    """The sequence after this one; they wrap to 0 (KIP-98)."""
    return 0 if sequence == SEQUENCE_MAX else sequence + 1


class ProducerState:
    """All idempotent producers of one partition."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[ProducerId, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, producer_id: ProducerId) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def last_batches(self) -> dict[ProducerId, int]:
        """The base offset of each producer's last batch: what a later replay must find."""
        return {pid: entry.marks[-1].base_offset for pid, entry in self._entries.items()}

    def check(self, header: BatchHeader) -> BatchMark | None:
        """Judge a client's batch: None to store it, the mark of the stored one for a duplicate.

        Raises KafkaError(invalid_producer_epoch | out_of_order_sequence_number).
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        first = header.base_sequence
        if header.producer_epoch == entry.epoch:
            marks = entry.marks
            if first == next_sequence(marks[-1].last_sequence):
                return None
            last = header.last_sequence
            for mark in marks:
                if mark.first_sequence == first and mark.last_sequence == last:
                    return mark
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} sent sequence {first}, "
                f"expected {next_sequence(marks[-1].last_sequence)}",
            )
        if header.producer_epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"producer {header.producer_id} has epoch {entry.epoch}, "
                f"the batch is of epoch {header.producer_epoch}",
            )
        if first != 0:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} began epoch {header.producer_epoch} "
                f"at sequence {first}, expected 0",
            )
        return None

    def record(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Remember a stored batch. `now_ms` is the broker's clock, at recovery too: record
        timestamps may be years old, and would make a producer expire at a restart."""
        if header.producer_id == NO_PRODUCER_ID or header.is_control:
            return
        mark = BatchMark(
            header.base_sequence, header.last_sequence, base_offset, header.max_timestamp_ms
        )
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            marks: tuple[BatchMark, ...] = (mark,)
        else:
            marks = (*entry.marks[1 - REMEMBERED_BATCHES :], mark)
        self._entries[header.producer_id] = ProducerEntry(header.producer_epoch, now_ms, marks)

    def expire(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> int:
        """Forget the producers silent for `expiration_ms`; how many."""
        oldest_ms = now_ms - expiration_ms
        silent = [pid for pid, entry in self._entries.items() if entry.seen_ms <= oldest_ms]
        for producer_id in silent:
            del self._entries[producer_id]
        return len(silent)

    def reaches(self, offset: int) -> bool:
        """Whether a remembered batch lies at or past `offset`: a truncation there matters."""
        return any(entry.marks[-1].base_offset >= offset for entry in self._entries.values())

    def batches_from(self, offset: int) -> Iterator[tuple[ProducerId, ProducerEpoch, int]]:
        """(producer id, epoch, first sequence) of the remembered batches at or past `offset`, of
        each producer in order."""
        for producer_id, entry in self._entries.items():
            for mark in entry.marks:
                if mark.base_offset >= offset:
                    yield producer_id, entry.epoch, mark.first_sequence

    def clear(self) -> None:
        """Forget everything: the log was truncated, or its replay starts anew."""
        self._entries.clear()

    def snapshot(self) -> bytes:
        parts = [_SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, len(self._entries))]
        for producer_id, (epoch, seen_ms, marks) in sorted(self._entries.items()):
            parts.append(_ENTRY_HEAD.pack(producer_id, epoch, seen_ms, len(marks)))
            parts.extend(_MARK.pack(*mark) for mark in marks)
        return b"".join(parts)

    def restore(self, data: bytes) -> None:
        """Become what `snapshot` wrote. Raises CorruptData, and then nothing has changed."""
        self._entries = dict(_read_snapshot(data))


def _read_snapshot(data: bytes) -> Iterable[tuple[ProducerId, ProducerEntry]]:
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptData(f"producer snapshot of {len(data)} bytes")
    version, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptData(f"producer snapshot of version {version}, known is {SNAPSHOT_VERSION}")
    pos, entries = _SNAPSHOT_HEAD.size, []
    for _ in range(count):
        if len(data) - pos < _ENTRY_HEAD.size:
            raise CorruptData(f"producer snapshot ends at byte {len(data)} within an entry")
        producer_id, epoch, seen_ms, mark_count = _ENTRY_HEAD.unpack_from(data, pos)
        pos += _ENTRY_HEAD.size
        end = pos + mark_count * _MARK.size
        if not 0 < mark_count <= REMEMBERED_BATCHES or end > len(data):
            raise CorruptData(f"producer snapshot: producer {producer_id}, {mark_count} batches")
        marks = tuple(BatchMark(*fields) for fields in _MARK.iter_unpack(data[pos:end]))
        entries.append((producer_id, ProducerEntry(epoch, seen_ms, marks)))
        pos = end
    if pos != len(data):
        raise CorruptData(f"producer snapshot with {len(data) - pos} bytes past its end")
    return entries
