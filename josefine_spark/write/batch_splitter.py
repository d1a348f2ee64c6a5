"""The splitter of a finished record batch that is too large for its topic.

The pieces have the same records in the same order and, from an idempotent producer, the same
sequence numbers, so later batches need no new numbers. Seldom used, so it works record by record.
"""

from collections.abc import Sequence

from josefine_arrow.batches.encoder import SEQUENCE_MASK, Sealed
from josefine_broker.base.limits import DECOMPRESSED_BYTES_MAX
from josefine_broker.records.batch import NO_SEQUENCE, BatchHeader, parse_header
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records


def split(sealed: Sealed, bytes_max: int | None) -> list[Sealed]:
    """At least two pieces, in order; more while a piece is above `bytes_max` (None: unknown) and
    has more than one record. Needs at least two records."""
    header = parse_header(sealed.data)
    expands_to = max(sealed.raw_bytes, DECOMPRESSED_BYTES_MAX)
    records = list(read_records(sealed.data, bytes_max=expands_to))
    middle = len(records) // 2
    pieces = _fitting(header, records[:middle], 0, bytes_max)
    return pieces + _fitting(header, records[middle:], middle, bytes_max)


def _fitting(
    header: BatchHeader, records: Sequence[Record], first: int, bytes_max: int | None
) -> list[Sealed]:
    piece = _build(header, records, first)
    if len(records) == 1 or bytes_max is None or len(piece.data) <= bytes_max:
        return [piece]
    middle = len(records) // 2
    pieces = _fitting(header, records[:middle], first, bytes_max)
    return pieces + _fitting(header, records[middle:], first + middle, bytes_max)


def _build(header: BatchHeader, records: Sequence[Record], first: int) -> Sealed:
    sequence = header.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = (sequence + first) & SEQUENCE_MASK
    data = build_batch(
        records,
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=sequence,
        transactional=header.is_transactional,
    )
    return Sealed(memoryview(data), len(records), len(data))
