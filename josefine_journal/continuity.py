"""Gap detection: the records of fetched batches up to the first missing offset. Values, no I/O.

Rules: in a log without compaction each offset is a record or a transaction marker (KIP-98: the only
record of a control batch); an offset that is neither is a gap. Whole batches may be missing, or
records within one, also if the batch's header still spans them, as after compaction.
"""

from dataclasses import dataclass, field

from josefine_broker.records.batch import iter_batches, verify
from josefine_broker.records.builder import Record
from josefine_broker.records.unreadable import read_whole_batch


@dataclass(slots=True, kw_only=True)
class Continuous:
    """The records from an offset on, without a gap."""

    next_offset: int
    """The offset to read next; a gap starts there if `gap_end` is set."""
    records: list[Record] = field(default_factory=list)
    gap_end: int | None = None
    """End of the gap (exclusive); None: there is no gap."""


def continuous(batches: memoryview, begin: int, end: int) -> Continuous:
    """The records from `begin` to `end` (exclusive) of complete batches, up to a gap. CRCs are
    verified.

    Batches may start before `begin`. Raises CorruptData, and UnreadableBatchError for a batch that
    was stored with content that cannot be decoded.
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
    """Whether records are missing before `offset`; those from `end` on were not requested."""
    reached = min(offset, end)
    if found.next_offset >= reached:
        return False
    found.gap_end = reached
    return True
