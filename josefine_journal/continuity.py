"""The records of fetched batches, and the first gap between their offsets. Values, no I/O.

Rules: in a log that is not compacted each offset is a record or a transaction marker (KIP-98: the
only record of a control batch); an offset that is neither is a gap, whether whole batches are gone
or records within one, also where the batch still spans them as compaction leaves it.
"""

from dataclasses import dataclass, field

from josefine_broker.records.batch import iter_batches, verify
from josefine_broker.records.builder import Record
from josefine_broker.records.unreadable import read_whole_batch


@dataclass(slots=True, kw_only=True)
class Continuous:
    """The records from an offset on, without a gap."""

    next_offset: int
    """Where to go on; a gap begins there if `gap_end` is known."""
    records: list[Record] = field(default_factory=list)
    gap_end: int | None = None
    """Exclusive; None: there is no gap."""


def continuous(batches: memoryview, begin: int, end: int) -> Continuous:
    """The records from `begin` to `end` (exclusive) of whole batches, CRCs verified, up to a gap.

    Batches may begin before. Raises CorruptData, and UnreadableBatchError for one that was stored
    although nobody can read it.
    """
    found = Continuous(next_offset=begin)
    for pos, header in iter_batches(batches):
        if header.end_offset <= found.next_offset:
            continue
        if found.next_offset >= end or _is_gap(found, header.base_offset, end):
            break
        if header.is_control:
            found.next_offset = header.end_offset
            continue
        verify(batches, pos, header)
        for record in read_whole_batch(batches[pos : pos + header.size_bytes], header):
            if record.offset < found.next_offset:
                continue
            if record.offset >= end or _is_gap(found, record.offset, end):
                break
            found.records.append(record)
            found.next_offset = record.offset + 1
        if found.gap_end is not None or _is_gap(found, header.end_offset, end):
            break
    return found


def _is_gap(found: Continuous, offset: int, end: int) -> bool:
    """Whether something is missing before `offset`; nobody asked for what is behind `end`."""
    reached = min(offset, end)
    if found.next_offset >= reached:
        return False
    found.gap_end = reached
    return True
