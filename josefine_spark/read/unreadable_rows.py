"""The row of a record batch that cannot be read, for `unreadableBatches=asRow`.

Rules: a column of its own marks the row, because a producer may write any key, value or header. A
batch has one row in a micro-batch, however its ranges are split into tasks. A range that starts
within a batch has a row for the rest of the batch, at the range's start offset: the part before it
may never have been read.
"""

from typing import Any

import pyarrow as pa

from josefine_arrow.batches.columns import (
    TIMESTAMP_MS_MAX,
    UNREADABLE,
    UNREADABLE_FIELD,
    arrow_schema,
)
from josefine_broker.base.errors import UnreadableBatchError
from josefine_broker.records.batch import BatchHeader
from josefine_spark.options.options import ReadOptions
from josefine_spark.read.admission import OffsetRange


def row_of(
    batch: memoryview,
    header: BatchHeader,
    error: UnreadableBatchError,
    wanted: OffsetRange,
    offset: int,
    options: ReadOptions,
) -> Any:
    """A record batch of one row, or None if another task returns the row. `offset`: the start of
    the response."""
    at = max(header.base_offset, offset)
    if wanted.continues and header.base_offset < wanted.start == at:
        return None
    # With LogAppendTime the maximum is the time of the append; else the base is the first record's.
    timestamp_ms = header.max_timestamp_ms if header.timestamp_type else header.base_timestamp_ms
    topic, partition = wanted.partition
    row = {
        "key": None,
        "value": bytes(batch),
        "topic": topic,
        "partition": partition,
        "offset": at,
        "timestamp": timestamp_ms * 1000 if abs(timestamp_ms) <= TIMESTAMP_MS_MAX else None,
        "timestampType": header.timestamp_type,
        UNREADABLE: {
            "start_offset": error.offset,
            "end_offset": error.end_offset,
            "cause": error.cause,
        },
    }
    schema = arrow_schema(options.include_headers, options.columns).append(UNREADABLE_FIELD)
    return pa.RecordBatch.from_pylist([row], schema=schema)


def with_mark(batch: Any) -> Any:
    """The record batch with the marker column of unreadable batches, null if it had none."""
    if UNREADABLE in batch.schema.names:
        return batch
    nothing = pa.nulls(batch.num_rows, UNREADABLE_FIELD.type)
    return batch.append_column(UNREADABLE_FIELD, nothing)
