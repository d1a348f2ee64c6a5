"""The decoder in plain Python, record by record: the oracle of `decoder.py`, and its fallback."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from josefine_arrow.batches.aborted_transactions import AbortedTransaction, aborted_batches
from josefine_arrow.batches.columns import TIMESTAMP_MS_MAX, Decoded, arrow_schema
from josefine_arrow.batches.row_filter import ALL_ROWS, RowFilter
from josefine_broker.records.batch import NO_LEADER_EPOCH, BatchHeader, iter_batches, verify
from josefine_broker.records.reader import read_records


class PythonDecoder:
    """Has the interface of `decoder.Decoder`."""

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        include_headers: bool,
        check_crcs: bool = True,
        columns: Sequence[str] | None = None,
        rows: RowFilter = ALL_ROWS,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._check_crcs = check_crcs
        self._rows = rows
        self._schema = arrow_schema(include_headers, columns)

    def decode(
        self,
        records: memoryview,
        start_offset: int,
        end_offset: int,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> Decoded:
        """Rows of `records` in [start_offset, end_offset). Raises CorruptData."""
        batches = list(iter_batches(records))
        facts = [(h.base_offset, h.attributes, h.producer_id, p, h.size_bytes) for p, h in batches]
        skipped = aborted_batches(facts, records, aborted) if aborted else [False] * len(facts)
        rows: list[dict[str, Any]] = []
        next_offset = start_offset
        for (position, header), skip in zip(batches, skipped, strict=True):
            if next_offset >= end_offset:
                break
            if self._check_crcs:
                verify(records, position, header)
            # Skipped batches advance the offset too: otherwise they would be fetched for ever.
            next_offset = max(next_offset, header.end_offset)
            if skip or header.is_control or not self._rows.may_be_in(header.max_timestamp_ms):
                continue
            for record in read_records(records[position:]):
                wanted = start_offset <= record.offset < end_offset
                if wanted and self._rows.takes(record.key, _int64(record.timestamp_ms)):
                    rows.append(self._row(record, header))
        if not rows:
            return Decoded([], min(next_offset, end_offset))
        return Decoded(
            [pa.RecordBatch.from_pylist(rows, schema=self._schema)], min(next_offset, end_offset)
        )

    def end_offset(self, records: memoryview) -> int:
        """The largest end offset of a complete batch, -1 when there is none."""
        return max([-1, *(header.end_offset for _, header in iter_batches(records))])

    def _row(self, record: Any, header: BatchHeader) -> dict[str, Any]:
        timestamp_ms = _int64(record.timestamp_ms)
        is_held = abs(timestamp_ms) <= TIMESTAMP_MS_MAX
        row = {
            "key": record.key,
            "value": record.value,
            "topic": self._topic,
            "partition": self._partition,
            "offset": record.offset,
            "timestamp": timestamp_ms * 1000 if is_held else None,
            "timestampType": header.timestamp_type,
        }
        if "leader_epoch" in self._schema.names:
            epoch = header.leader_epoch
            row["leader_epoch"] = None if epoch == NO_LEADER_EPOCH else epoch
        if "headers" in self._schema.names:
            headers = [{"key": name, "value": value} for name, value in record.headers]
            row["headers"] = headers or None
        return row


def _int64(number: int) -> int:
    """Wrap to 64 bits, as the compiled kernels do."""
    return (number + 2**63) % 2**64 - 2**63
