"""The batch-by-batch decoder of a fetched response that cannot be decoded as a whole: readable
batches are decoded; for an unreadable batch it raises, records a loss or returns one row, as the
options decide.

Rules: only a batch with a valid checksum may be skipped or become a row: it was produced like that,
and a retry does not help. A change by disk or network is an error each time. A batch is readable or
unreadable as a whole, also where a range ends within it: otherwise the same records would be rows
under one split of the topic and unreadable under another.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from josefine_arrow.batches.aborted_transactions import AbortedTransaction, aborted_batches
from josefine_broker.base.errors import PRODUCED_UNREADABLE, CorruptData, KafkaError
from josefine_broker.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    iter_batches,
    parse_header,
    verify,
)
from josefine_broker.records.unreadable import unreadable
from josefine_spark.base.errors import ReadError
from josefine_spark.options.options import ReadOptions, UnreadableBatches
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.data_loss import Loss, Reason
from josefine_spark.read.unreadable_rows import row_of

log = logging.getLogger("josefine.spark")

WAYS_ON = (
    f"{PRODUCED_UNREADABLE}. To continue, set unreadableBatches=asRow (its bytes become a row) or"
    " failOnDataLoss=false (it is skipped, and lossTable records its offsets); in a pipeline"
    " `on_error: dead_letter` in `decode` stores its bytes as a dead letter, and `on_data_loss:"
    " skip_and_record` skips it and records its offsets"
)


class OneByOne:
    """Decodes responses of one range. Skipped batches are appended to `losses`."""

    def __init__(
        self, decoder: Any, wanted: OffsetRange, options: ReadOptions, losses: list[Loss]
    ) -> None:
        self._decoder = decoder
        self._wanted = wanted
        self._options = options
        self._losses = losses
        self._decides = options.unreadable_batches is not UnreadableBatches.FAIL

    def check_ends(self, records: memoryview, offset: int) -> None:
        """Raise CorruptData or KafkaError for an unreadable batch that is only partly in the range:
        the decoder does not look at its records outside of the range."""
        end = self._wanted.end
        if not self._decides or len(records) < HEADER_BYTES:
            return
        cut_at_start = parse_header(records).base_offset < offset
        if not cut_at_start and self._decoder.end_offset(records) <= end:
            return
        for pos, header in iter_batches(records):
            if self._is_cut(header, offset):
                self._decode_whole(records[pos : pos + header.size_bytes], header)

    def _is_cut(self, header: BatchHeader, offset: int) -> bool:
        end = self._wanted.end
        return header.base_offset < offset < header.end_offset or (
            header.base_offset < end < header.end_offset
        )

    def _decode_whole(self, batch: memoryview, header: BatchHeader) -> None:
        self._decoder.decode(batch, header.base_offset, header.end_offset)

    def decode(
        self,
        records: memoryview,
        offset: int,
        aborted: Sequence[AbortedTransaction],
        error: Exception,
    ) -> list[Any]:
        """Arrow batches of the readable records from `offset` on, after `error`. Raises
        ReadError."""
        tp, end = self._wanted.partition, self._wanted.end
        try:
            batches = list(iter_batches(records))
            facts = [
                (h.base_offset, h.attributes, h.producer_id, pos, h.size_bytes)
                for pos, h in batches
            ]
            # The state of transactions follows from all batches, starting with the first.
            skipped = aborted_batches(facts, records, aborted) if aborted else [False] * len(facts)
        except CorruptData as damage:
            raise ReadError(f"cannot read {tp} from offset {offset}: {damage}") from error
        decoded: list[Any] = []
        for (pos, header), skip in zip(batches, skipped, strict=True):
            if skip or header.end_offset <= offset or header.base_offset >= end:
                continue
            decoded += self._one(records[pos : pos + header.size_bytes], header, offset)
        return decoded

    def _one(self, batch: memoryview, header: BatchHeader, offset: int) -> Sequence[Any]:
        # The checksum decides first: a batch that disk or network changed must never be skipped.
        tp, end = self._wanted.partition, self._wanted.end
        try:
            verify(batch, 0, header)
        except CorruptData as damage:
            raise ReadError(
                f"cannot read {tp} at offset {header.base_offset}: {damage}; the stored bytes are"
                " not those that were produced ('josefine log verify' finds the place once the"
                " broker is stopped)"
            ) from damage
        try:
            if self._decides and self._is_cut(header, offset):
                self._decode_whole(batch, header)
            found: Sequence[Any] = self._decoder.decode(batch, offset, end).batches
        except (CorruptData, KafkaError) as error:
            cause = unreadable(batch, header, error)
            decided = self._options.unreadable_batches
            if decided is UnreadableBatches.FAIL:
                raise ReadError(
                    f"cannot read {tp} at offset {cause.offset}: {cause}; {WAYS_ON}"
                ) from error
            if decided is UnreadableBatches.AS_ROW:
                row = row_of(batch, header, cause, self._wanted, offset, self._options)
                return () if row is None else (row,)
            start, stop = max(offset, cause.offset), min(end, cause.end_offset)
            loss = Loss(partition=tp, start=start, end=stop, reason=Reason.UNREADABLE)
            self._losses.append(loss)
            log.warning("records are lost: %s: %s", loss, cause.cause)
            return ()
        return found
