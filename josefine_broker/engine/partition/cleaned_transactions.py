"""How the log cleaner treats transactional batches and markers (KIP-98, KIP-534).

Rules, as in Kafka's cleaner:
- it works below the last stable offset only, so the outcome of each transaction there is known;
- records of an aborted transaction are removed and replace nothing; records of a committed one are
  treated as any others;
- a marker is needed while any batch of its transaction remains, even a header without records;
- after the pass that removed the last of them, the marker stays for `delete.retention.ms`, so that
  a replica that copied the records learns how the transaction ended; the batch header holds the
  time when that ends;
- a marker also stays while anything depends on it. A reader that got the aborted transaction drops
  its producer's records until it finds the marker, and so may a reader after a restart from a
  snapshot that lists it. A transaction that is open in such a snapshot is ended by nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.engine.partition.transactions import AbortedRange
from josefine_broker.records.batch import BatchHeader

OFFSET_MAX = 2**63 - 1


class Fate(Enum):
    """What happens to a marker."""

    NEEDED = "needed"
    """A batch of its transaction remains."""
    EMPTIED = "emptied"
    """No batch of its transaction remains, but the marker must stay for readers or replicas."""
    UNUSED = "unused"
    """No batch remained before this pass and nothing depends on it: it may be removed once
    `delete.retention.ms` is over."""


class TransactionFacts(NamedTuple):
    """A partition's transaction state at the start of a cleaning pass."""

    aborted: tuple[AbortedRange, ...] = ()
    """The aborted transactions that its readers get."""
    marker_epochs: Mapping[ProducerId, ProducerEpoch] = {}
    """Producers whose current epoch has only a marker, which fences the older epochs."""


def facts_of(producers: ProducerState) -> TransactionFacts:
    """The facts of a partition at this moment."""
    epochs = {key: entry.epoch for key, entry in producers.entries() if not entry.marks}
    return TransactionFacts(producers.transactions.aborted, epochs)


class CleanedTransactions:
    """The transaction state of one cleaning pass. Mutable: it sees each batch in log order."""

    __slots__ = (
        "_aborted", "_emptied", "_markers", "_may_lose", "_met", "_open_since", "_told", "_wrote",
    )  # fmt: skip

    def __init__(
        self, facts: TransactionFacts = TransactionFacts(), *, may_lose: bool = True
    ) -> None:
        """`may_lose`: False where any marker may still be needed."""
        self._may_lose = may_lose
        self._aborted: dict[ProducerId, list[AbortedRange]] = {}
        """Each producer's in order of their markers: a producer has one transaction at a time."""
        for each in facts.aborted:
            self._aborted.setdefault(each.producer_id, []).append(each)
        self._markers = facts.marker_epochs
        self._told = set(_ends(facts.aborted))
        self._open_since: dict[ProducerId, int] = {}
        """Producer → the offset from which a marker may end a transaction that is open in a
        snapshot."""
        self._met: set[ProducerId] = set()
        """Producers with a batch in the log whose marker has not been seen in this pass."""
        self._wrote: set[ProducerId] = set()
        """Those of them with a batch that remains."""
        self._emptied: list[AbortedRange] = []

    def counts_on(self, snapshot: bytes, offset: int) -> None:
        """Recovery or a truncation may restore this snapshot, taken at that offset. Raises
        CorruptData for one that cannot be restored."""
        state = ProducerState()
        state.restore(snapshot)
        self._told.update(_ends(state.transactions.aborted))
        for producer_id in state.transactions.open_ids:
            since = self._open_since.get(producer_id, OFFSET_MAX)
            self._open_since[producer_id] = min(since, offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        if not header.is_transactional or header.producer_id not in self._aborted:
            return False
        ranges = self._aborted[header.producer_id]
        at = bisect_left(ranges, header.base_offset, key=lambda each: each.marker_offset)
        return at < len(ranges) and ranges[at].first_offset <= header.base_offset

    def wrote(self, header: BatchHeader, *, stays: bool) -> None:
        """A batch of records is in the log, and stays or is removed."""
        if header.is_transactional:
            self._met.add(header.producer_id)
            if stays:
                self._wrote.add(header.producer_id)

    def ended(self, header: BatchHeader) -> Fate:
        """A marker is in the log; returns what happens to it."""
        producer_id, offset = header.producer_id, header.base_offset
        was_met, is_written = producer_id in self._met, producer_id in self._wrote
        self._met.discard(producer_id)
        self._wrote.discard(producer_id)
        if is_written:
            return Fate.NEEDED
        ranges = self._aborted.get(producer_id, ())
        self._emptied.extend(each for each in ranges if each.marker_offset == offset)
        # Removing a marker that a reader, a replica or a snapshot still depends on would make
        # committed records disappear for it, so each of those is checked before UNUSED.
        is_counted_on = not self._may_lose or (producer_id, offset) in self._told
        is_counted_on |= offset >= self._open_since.get(producer_id, OFFSET_MAX)
        is_counted_on |= self._markers.get(producer_id) == header.producer_epoch
        return Fate.EMPTIED if was_met or is_counted_on else Fate.UNUSED

    def take_emptied(self) -> list[AbortedRange]:
        """The aborted transactions that this pass emptied since the last call. Readers need not
        get them once the cleaned segments are in place."""
        found, self._emptied = self._emptied, []
        return found


def _ends(aborted: Iterable[AbortedRange]) -> Iterable[tuple[ProducerId, int]]:
    return ((each.producer_id, each.marker_offset) for each in aborted)
