"""The transactions of one partition: open, ended and aborted ones, and the last stable offset
(KIP-98).

Rules:
- a transaction is open from its producer's first transactional batch to the marker that ends it;
- the last stable offset is the first offset of the earliest transaction that is open, or whose
  marker is not below the high watermark yet; else the high watermark;
- an aborted transaction is remembered from its first offset to its marker while the log holds any
  part of it. Readers get those that may overlap the records they read. They never get one whose
  marker is gone: a reader drops the producer's records until it finds the marker, so it would also
  drop what the producer wrote later;
- a marker without an open transaction ends nothing: a marker that is written twice has no effect
  the second time.

All of this state follows from the log, so recovery rebuilds it; a snapshot only makes that faster.
`producers.py` decides who may write what.
"""

from collections import deque
from collections.abc import Collection
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import ProducerId

_HEAD = Struct(">qiii")
_OPEN = Struct(">qqq")
_ENDED = Struct(">qq")
_ABORTED = Struct(">qqq")


class OpenTransaction(NamedTuple):
    """An open transaction of one producer, which has one at a time."""

    first_offset: int
    begun_ms: int
    """Wall clock time of the broker when the first batch was appended or recovered."""


class EndedTransaction(NamedTuple):
    """An ended transaction whose marker may still be at or above the high watermark."""

    first_offset: int
    marker_offset: int


class AbortedRange(NamedTuple):
    """The offsets (both inclusive) between which an aborted transaction may have written."""

    producer_id: ProducerId
    first_offset: int
    marker_offset: int


class Transactions:
    """The transactions of one partition. Mutable."""

    __slots__ = ("_aborted", "_ended", "_marker_end", "_open")

    def __init__(self) -> None:
        self._open: dict[ProducerId, OpenTransaction] = {}
        """In order of first offset."""
        self._ended: deque[EndedTransaction] = deque()
        """In order of marker offset."""
        self._aborted: list[AbortedRange] = []
        """In order of marker offset."""
        self._marker_end = 0
        """The offset after the last marker."""

    @property
    def are_settled(self) -> bool:
        """Whether read_committed sees everything below the high watermark."""
        return not self._open and not self._ended

    @property
    def has_aborted(self) -> bool:
        return bool(self._aborted)

    @property
    def is_empty(self) -> bool:
        """Whether no transaction matters, now or for a snapshot."""
        return not self._marker_end and self.are_settled and not self._aborted

    @property
    def open_ids(self) -> tuple[ProducerId, ...]:
        """Producers with an open transaction."""
        return tuple(self._open)

    @property
    def aborted(self) -> tuple[AbortedRange, ...]:
        """The aborted transactions that readers get, in order of marker offset."""
        return tuple(self._aborted)

    def open_of(self, producer_id: ProducerId) -> OpenTransaction | None:
        return self._open.get(producer_id)

    def begin(self, producer_id: ProducerId, offset: int, now_ms: int) -> None:
        """A transactional batch is in the log; only the first one of a transaction counts."""
        if producer_id not in self._open:
            self._open[producer_id] = OpenTransaction(offset, now_ms)

    def end(self, producer_id: ProducerId, marker_offset: int, *, is_commit: bool) -> None:
        """End the producer's transaction: its marker is in the log."""
        self._marker_end = marker_offset + 1
        transaction = self._open.pop(producer_id, None)
        if transaction is None:
            return
        self._ended.append(EndedTransaction(transaction.first_offset, marker_offset))
        if not is_commit:
            aborted = AbortedRange(producer_id, transaction.first_offset, marker_offset)
            self._aborted.append(aborted)

    def stable_end(self, high_watermark: int) -> int:
        """The last stable offset. It may be below the log start offset after a deletion."""
        end = high_watermark
        if self._open:
            end = min(end, next(iter(self._open.values())).first_offset)
        for first_offset, marker_offset in self._ended:
            if first_offset < end and marker_offset >= high_watermark:
                end = first_offset
        return end

    def committed(self, high_watermark: int) -> None:
        """Forget ended transactions whose markers are below the high watermark: every in-sync
        replica has them."""
        ended = self._ended
        while ended and ended[0].marker_offset < high_watermark:
            ended.popleft()

    def aborted_between(self, begin: int, end: int) -> list[AbortedRange]:
        """The aborted transactions that may overlap the offsets from `begin` to `end`
        (exclusive)."""
        found = []
        for each in reversed(self._aborted):
            if each.marker_offset < begin:
                break
            if each.first_offset < end:
                found.append(each)
        found.reverse()
        return found

    def forget_before(self, log_start_offset: int) -> None:
        """The log start offset moved: aborted transactions before it are forgotten. Open ones stay
        open until their marker is written."""
        count = 0
        for each in self._aborted:
            if each.marker_offset >= log_start_offset:
                break
            count += 1
        del self._aborted[:count]

    def forget_aborted(self, gone: Collection[AbortedRange]) -> None:
        """Forget aborted transactions of which the log cleaner left at most the marker."""
        without = frozenset(gone)
        self._aborted = [each for each in self._aborted if each not in without]

    def reaches(self, offset: int) -> bool:
        """Whether a truncation to `offset` changes this state."""
        return self._marker_end > offset or any(
            each.first_offset >= offset for each in self._open.values()
        )

    def clear(self) -> None:
        self._open.clear()
        self._ended.clear()
        self._aborted.clear()
        self._marker_end = 0

    def snapshot(self) -> bytes:
        parts = [
            _HEAD.pack(self._marker_end, len(self._open), len(self._ended), len(self._aborted))
        ]
        parts.extend(_OPEN.pack(key, *each) for key, each in self._open.items())
        parts.extend(_ENDED.pack(*each) for each in self._ended)
        parts.extend(_ABORTED.pack(*each) for each in self._aborted)
        return b"".join(parts)

    def restore(self, data: bytes) -> None:
        """Restore what `snapshot` wrote. Raises CorruptData, and then nothing has changed."""
        if len(data) < _HEAD.size:
            raise CorruptData(f"a snapshot of transactions of {len(data)} bytes")
        marker_end, open_count, ended_count, aborted_count = _HEAD.unpack_from(data)
        at_ended = _HEAD.size + open_count * _OPEN.size
        at_aborted = at_ended + ended_count * _ENDED.size
        end = at_aborted + aborted_count * _ABORTED.size
        if min(open_count, ended_count, aborted_count) < 0 or end != len(data):
            raise CorruptData(
                f"a snapshot of {open_count} open, {ended_count} ended and {aborted_count} aborted "
                f"transactions has {len(data)} bytes, not {end}"
            )
        opened = _OPEN.iter_unpack(data[_HEAD.size : at_ended])
        self._open = {key: OpenTransaction(offset, ms) for key, offset, ms in opened}
        ended = _ENDED.iter_unpack(data[at_ended:at_aborted])
        self._ended = deque(EndedTransaction(*each) for each in ended)
        self._aborted = [AbortedRange(*each) for each in _ABORTED.iter_unpack(data[at_aborted:])]
        self._marker_end = marker_end
