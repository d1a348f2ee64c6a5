"""What the log cleaner may do with the transactions of a log, batch by batch (KIP-98, KIP-534).

Rules, as Kafka's cleaner has them:
- it works below the last stable offset only: how each transaction there ended is known;
- what an aborted one wrote goes, and replaces nothing; what a committed one wrote is judged as any
  other record;
- a marker is needed as long as a batch of its transaction stays, be it a header without records;
- behind the pass that took the last of them it stays for `delete.retention.ms`, so that a replica
  that copied the records hears how they ended; its header says until when;
- it stays besides as long as somebody still counts on it: a reader who is told of the aborted
  transaction drops what its producer wrote until it finds the marker, and so may one that is told
  out of a snapshot that a start begins from; and a transaction that is open in such a snapshot is
  ended by nothing else.
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
    """Of a marker."""

    NEEDED = "needed"
    """Something of its transaction stays."""
    EMPTIED = "emptied"
    """Nothing does any more; it must stay for others all the same."""
    UNUSED = "unused"
    """Nothing was there before, and nobody counts on it: it may go when its time is over."""


class TransactionFacts(NamedTuple):
    """What a partition says when a pass begins."""

    aborted: tuple[AbortedRange, ...] = ()
    """What its readers are told of."""
    marker_epochs: Mapping[ProducerId, ProducerEpoch] = {}
    """Of producers of whose epoch a marker is all there is: it fences the older ones."""


def facts_of(producers: ProducerState) -> TransactionFacts:
    """Of a partition, now."""
    epochs = {key: entry.epoch for key, entry in producers.entries() if not entry.marks}
    return TransactionFacts(producers.transactions.aborted, epochs)


class CleanedTransactions:
    """See the module. Of one pass; mutable, for it is told each batch in the log's order."""

    __slots__ = (
        "_aborted", "_emptied", "_markers", "_may_lose", "_met", "_open_since", "_told", "_wrote",
    )  # fmt: skip

    def __init__(
        self, facts: TransactionFacts = TransactionFacts(), *, may_lose: bool = True
    ) -> None:
        """`may_lose`: False where somebody may count on any marker."""
        self._may_lose = may_lose
        self._aborted: dict[ProducerId, list[AbortedRange]] = {}
        """Of each producer in the order of their markers: it has one transaction at a time."""
        for each in facts.aborted:
            self._aborted.setdefault(each.producer_id, []).append(each)
        self._markers = facts.marker_epochs
        self._told = set(_ends(facts.aborted))
        self._open_since: dict[ProducerId, int] = {}
        """Markers from there on end what is open in a snapshot."""
        self._met: set[ProducerId] = set()
        """Has a batch in the log, of a transaction whose marker was not met yet;"""
        self._wrote: set[ProducerId] = set()
        """has one that stays."""
        self._emptied: list[AbortedRange] = []

    def counts_on(self, snapshot: bytes, offset: int) -> None:
        """A start, or a truncation, may begin from this snapshot at that offset. Raises
        CorruptData for one that none can begin from."""
        state = ProducerState()
        state.restore(snapshot)
        self._told.update(_ends(state.transactions.aborted))
        for producer_id in state.transactions.open_ids:
            since = self._open_since.get(producer_id, OFFSET_MAX)
            self._open_since[producer_id] = min(since, offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records is of a transaction that was aborted."""
        if not header.is_transactional or header.producer_id not in self._aborted:
            return False
        ranges = self._aborted[header.producer_id]
        at = bisect_left(ranges, header.base_offset, key=lambda each: each.marker_offset)
        return at < len(ranges) and ranges[at].first_offset <= header.base_offset

    def wrote(self, header: BatchHeader, *, stays: bool) -> None:
        """A batch of records was in the log, and stays or goes."""
        if header.is_transactional:
            self._met.add(header.producer_id)
            if stays:
                self._wrote.add(header.producer_id)

    def ended(self, header: BatchHeader) -> Fate:
        """A marker was in the log."""
        producer_id, offset = header.producer_id, header.base_offset
        was_met, is_written = producer_id in self._met, producer_id in self._wrote
        self._met.discard(producer_id)
        self._wrote.discard(producer_id)
        if is_written:
            return Fate.NEEDED
        ranges = self._aborted.get(producer_id, ())
        self._emptied.extend(each for each in ranges if each.marker_offset == offset)
        is_counted_on = not self._may_lose or (producer_id, offset) in self._told
        is_counted_on |= offset >= self._open_since.get(producer_id, OFFSET_MAX)
        is_counted_on |= self._markers.get(producer_id) == header.producer_epoch
        return Fate.EMPTIED if was_met or is_counted_on else Fate.UNUSED

    def take_emptied(self) -> list[AbortedRange]:
        """Those met since the last call of which nothing stays: no reader needs to hear of them
        when what was judged so far is in the log's place."""
        found, self._emptied = self._emptied, []
        return found


def _ends(aborted: Iterable[AbortedRange]) -> Iterable[tuple[ProducerId, int]]:
    return ((each.producer_id, each.marker_offset) for each in aborted)
