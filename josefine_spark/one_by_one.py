"""A fetched response that cannot be decoded as a whole, batch by batch: what can be read is
decoded, what cannot is named, or passed over as a loss where that was decided.

Rules: only a batch whose checksum is right may be passed over: it was produced like that, and will
not get better. What the disk or the network changed is an error each time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.records.batch import BatchHeader, iter_batches, verify
from josefine_broker.records.unreadable import unreadable
from josefine_spark.aborted import AbortedTransaction, aborted_batches
from josefine_spark.admission import OffsetRange
from josefine_spark.data_loss import Loss, Reason
from josefine_spark.errors import ReadError

log = logging.getLogger("josefine.spark")

WAY_PAST = (
    "its checksum is right, so it was produced like this. failOnDataLoss=false passes over it, and"
    " lossTable records it; in a pipeline `josefine pipeline offsets set` goes on behind it"
)


class OneByOne:
    """Decodes responses of one range. `losses` gets what is passed over."""

    def __init__(self, decoder: Any, wanted: OffsetRange, fails: bool, losses: list[Loss]) -> None:
        self._decoder = decoder
        self._wanted = wanted
        self._fails = fails
        self._losses = losses

    def decode(
        self,
        records: memoryview,
        offset: int,
        aborted: Sequence[AbortedTransaction],
        error: Exception,
    ) -> list[Any]:
        """Arrow batches of what can be read from `offset` on, where `error` came up. Raises
        ReadError."""
        tp, end = self._wanted.partition, self._wanted.end
        try:
            batches = list(iter_batches(records))
            facts = [
                (h.base_offset, h.attributes, h.producer_id, pos, h.size_bytes)
                for pos, h in batches
            ]
            # Which transactions are open is known only from the response's first batch on.
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
            found: Sequence[Any] = self._decoder.decode(batch, offset, end).batches
        except (CorruptData, KafkaError) as error:
            cause = unreadable(batch, header, error)
            if self._fails:
                raise ReadError(
                    f"cannot read {tp} at offset {cause.offset}: {cause}; {WAY_PAST}"
                ) from error
            start, stop = max(offset, cause.offset), min(end, cause.end_offset)
            loss = Loss(partition=tp, start=start, end=stop, reason=Reason.UNREADABLE)
            self._losses.append(loss)
            log.warning("records are lost: %s: %s", loss, cause.cause)
            return ()
        return found
