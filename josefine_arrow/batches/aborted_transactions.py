"""The filter of record batches that belong to aborted transactions (KIP-98, read_committed).

A producer's aborted transaction extends from its first offset, as the broker lists it, to the
producer's next abort marker. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.records.reader import read_records

TRANSACTIONAL_BIT, CONTROL_BIT = 0x10, 0x20
ABORT_MARKER = 0


class AbortedTransaction(NamedTuple):
    """One entry of a fetch response's list of aborted transactions."""

    producer_id: int
    first_offset: int


def aborted_batches(
    batches: Sequence[Sequence[int]],
    records: memoryview,
    aborted: Sequence[AbortedTransaction],
) -> list[bool]:
    """Whether each batch (base offset, attributes, producer id, position, size) is skipped."""
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    open_producers: set[int] = set()
    skipped = []
    for base_offset, attributes, producer_id, position, size in batches:
        # A producer id can have several aborted transactions in one response; each is opened by its
        # first offset and closed by its own abort marker.
        while waiting and waiting[-1].first_offset <= base_offset:
            open_producers.add(waiting.pop().producer_id)
        if attributes & CONTROL_BIT:
            if _is_abort(records[position : position + size]):
                open_producers.discard(producer_id)
            skipped.append(True)
        else:
            skipped.append(bool(attributes & TRANSACTIONAL_BIT) and producer_id in open_producers)
    return skipped


def _is_abort(batch: memoryview) -> bool:
    """Whether a control batch is an abort marker. The key of a control record is two int16: version
    and type. Compaction may leave a batch without a record."""
    record = next(read_records(batch), None)
    if record is None:
        return False
    key = record.key
    if key is None or len(key) < 4:
        raise CorruptData("a control record without a type")
    return int.from_bytes(key[2:4], "big", signed=True) == ABORT_MARKER
