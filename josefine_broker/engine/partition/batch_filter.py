"""The log cleaner's batch filter: the last value of each key, and the batches that must stay.

A pass reads a range of the log twice. First `note_keys` notes the last offset of each key below
`end_offset`. Then a `BatchFilter` sees every batch from the log start offset on, in order:
- a record stays unless a later record with its key is below `end_offset`;
- a tombstone that is the last record of its key stays for `delete.retention.ms` after the first
  pass over it, so that slow readers see it (KIP-534);
- a record without a key stays: nothing replaces it. (Kafka refuses it at produce, which costs a
  check of every record there, and so may drop it here);
- records of aborted transactions are removed; markers stay as long as `cleaned_transactions.py`
  requires, and a producer's last marker stays while the producer is remembered without a batch of
  that epoch;
- a batch that cannot be read within the limits stays unchanged. Its records replace nothing, and no
  tombstone after it is removed, because the batch may hold a record that the tombstone deletes;
- three kinds of batches stay as headers when all their records are removed: the last one of each
  remembered producer, for its sequence numbers; the first one of each leader epoch, with which
  followers find where their log diverges from the leader's; and the last one of a segment, so that
  no offsets are missing between two segments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import ProducerId
from josefine_broker.engine.partition.cleaned_transactions import CleanedTransactions, Fate
from josefine_broker.engine.partition.key_offsets import KeyOffsets
from josefine_broker.records.batch import COMPRESSION_MAX, BatchHeader
from josefine_broker.records.control import read_marker
from josefine_broker.records.crc import Buffer
from josefine_broker.records.keyed import (
    KeyedRecord,
    delete_horizon_ms,
    emptied,
    keyed_records,
    open_body,
    with_only,
)

STEPS_PER_BREATH = 256
"""Records processed between two yields to other work: about a millisecond."""

CLEANED_BATCH_BYTES_MAX = 64 * 1024 * 1024
"""Decompressed size limit of one batch; the log cleaner holds three copies for a moment. A larger
batch is left unchanged."""

CLEANED_BATCH_RECORDS_MAX = 100_000
"""Record limit of one batch in the log cleaner: 30 MB of its memory. librdkafka's batches have
10,000 at most; a batch with more than this limit is left unchanged."""

TIMESTAMP_MS_MAX = 2**63 - 1


class Breath:
    """Counts finished work and yields to other work at intervals. Mutable."""

    __slots__ = ("_breathe", "_steps")

    def __init__(self, breathe: Callable[[], None] = lambda: None) -> None:
        """`breathe` yields; it may raise to end the pass."""
        self._breathe = breathe
        self._steps = 0

    def step(self, count: int) -> None:
        """Count this much finished work."""
        self._steps += count
        if self._steps >= STEPS_PER_BREATH:
            self._steps = 0
            self._breathe()


@dataclass(slots=True)
class Tally:
    """Counters of one pass. Mutable."""

    records_read: int = 0
    records_kept: int = 0
    tombstones_dropped: int = 0
    records_without_key: int = 0
    batches_left_alone: int = 0


def note_keys(
    latest: KeyOffsets,
    batch: Buffer,
    header: BatchHeader,
    breath: Breath,
    transactions: CleanedTransactions,
) -> bool:
    """Put the batch's keys into `latest`, in log order; False, with nothing put, when they do not
    fit."""
    if header.is_control or transactions.is_aborted(header) or not _is_read(header, latest):
        return True
    # Whole batches only: half of one would make its later records look like the last of their keys.
    if latest.count + header.record_count > latest.count_max:
        return False
    found = _records_of(batch, header, breath)
    for record in found[1] if found else ():
        if record.key is not None:
            latest.put(record.key, header.base_offset + record.offset_delta)
    return True


def _is_read(header: BatchHeader, latest: KeyOffsets) -> bool:
    """Whether the records are filtered one by one: memory limits what is held at once."""
    return header.compression <= COMPRESSION_MAX and header.record_count <= min(
        latest.count_max, CLEANED_BATCH_RECORDS_MAX
    )


def _records_of(
    batch: Buffer, header: BatchHeader, breath: Breath
) -> tuple[bytes, list[KeyedRecord]] | None:
    """The batch's body and its records; None when it cannot be read."""
    try:
        body = open_body(batch, header, CLEANED_BATCH_BYTES_MAX)
        records = []
        for record in keyed_records(body, header):
            records.append(record)
            if len(records) % STEPS_PER_BREATH == 0:
                breath.step(STEPS_PER_BREATH)
        breath.step(len(records) % STEPS_PER_BREATH)
    except CorruptData:
        return None
    return body, records


class BatchFilter:
    """The filter of one pass. Its only mutable state is what earlier batches set."""

    __slots__ = (
        "_breath", "_delete_retention_ms", "_end_offset", "_last_epoch", "_latest", "_now_ms",
        "_producers", "_tombstones_stay", "_transactions", "tally",
    )  # fmt: skip

    def __init__(
        self,
        latest: KeyOffsets,
        end_offset: int,
        producers: Mapping[ProducerId, int],
        transactions: CleanedTransactions,
        *,
        now_ms: int,
        delete_retention_ms: int,
        breath: Breath,
    ) -> None:
        """`producers`: the base offset of each remembered producer's last batch."""
        self._latest = latest
        self._end_offset = end_offset
        self._producers = producers
        self._transactions = transactions
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._breath = breath
        self._last_epoch = -1
        """Of the batch before. The first batch of each epoch stays: followers find by it where
        epochs start (KIP-101)."""
        self._tombstones_stay = False
        """A batch could not be read: it may have older records of any key."""
        self.tally = Tally()

    def keep(self, batch: Buffer, header: BatchHeader, *, is_last: bool) -> Buffer | None:
        """What remains of the next batch: the batch, one with fewer records, or None. `is_last`: of
        the segment that is written."""
        begins_epoch = header.leader_epoch > self._last_epoch
        self._last_epoch = header.leader_epoch
        # Beyond what the first pass noted: nothing is known about what follows in there.
        if header.base_offset >= self._end_offset:
            return batch
        must_stay = begins_epoch or is_last or self._is_last_of_producer(header)
        if header.is_control:
            return self._control(batch, header, must_stay=must_stay)
        left = self._left_of(batch, header)
        if left is None and must_stay:
            # A batch without records keeps what its header has: the epoch that starts there, the
            # last offset of a segment, the last sequence number of a producer.
            left = emptied(header) if header.record_count else batch
        self._transactions.wrote(header, stays=left is not None)
        return left

    def _left_of(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        """What remains of a batch because of its records."""
        if self._transactions.is_aborted(header):
            self.tally.records_read += header.record_count
            return None
        found = _records_of(batch, header, self._breath) if _is_read(header, self._latest) else None
        if found is None:
            self.tally.batches_left_alone += 1
            self._tombstones_stay = True
            return batch
        body, records = found
        kept, horizon_ms = self._judge(header, records)
        if not kept:
            return None
        if len(kept) == len(records) and horizon_ms == delete_horizon_ms(header):
            return batch
        return with_only(header, body, kept, horizon_ms)

    def _control(self, batch: Buffer, header: BatchHeader, *, must_stay: bool) -> Buffer | None:
        """What remains of a control batch: all of it, with a delete horizon once it is unneeded."""
        if read_marker(batch) is None:
            return batch
        fate = self._transactions.ended(header)
        if fate is Fate.NEEDED:
            return batch
        horizon_ms = delete_horizon_ms(header)
        if horizon_ms is None:
            body = open_body(batch, header, CLEANED_BATCH_BYTES_MAX)
            return with_only(header, body, list(keyed_records(body, header)), self._horizon_ms())
        # The horizon was set by an earlier pass: readers have had delete.retention.ms to get past
        # it.
        if fate is Fate.UNUSED and self._now_ms >= horizon_ms and not must_stay:
            return None
        return batch

    def _horizon_ms(self) -> int:
        """The delete horizon of what becomes unneeded in this pass."""
        return min(self._now_ms + self._delete_retention_ms, TIMESTAMP_MS_MAX)

    def _judge(
        self, header: BatchHeader, records: list[KeyedRecord]
    ) -> tuple[list[KeyedRecord], int | None]:
        """The records that remain, and the delete horizon of the tombstones among them."""
        horizon_ms = delete_horizon_ms(header)
        # A tombstone may go only when every reader had the time to see it, and never while an older
        # record of its key may be left in a batch that could not be read.
        may_drop = horizon_ms is not None and self._now_ms >= horizon_ms
        may_drop = may_drop and not self._tombstones_stay
        latest, base_offset, tally = self._latest, header.base_offset, self.tally
        kept = []
        has_tombstone = False
        for at, record in enumerate(records, 1):
            if at % STEPS_PER_BREATH == 0:
                self._breath.step(STEPS_PER_BREATH)
            key = record.key
            if key is None:
                tally.records_without_key += 1
            # Greater, not equal: the entry may be this record itself.
            elif latest.get(key) > base_offset + record.offset_delta:
                continue
            elif record.is_tombstone:
                if may_drop:
                    tally.tombstones_dropped += 1
                    continue
                has_tombstone = True
            kept.append(record)
        tally.records_read += len(records)
        tally.records_kept += len(kept)
        if has_tombstone and horizon_ms is None:
            horizon_ms = self._horizon_ms()
        return kept, horizon_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Kafka keeps it, too: after a restart the next sequence number must be known."""
        return self._producers.get(header.producer_id) == header.base_offset
