"""One row for a record batch that cannot be read, as `unreadableBatches=asRow` asks for.

Rules: the row is marked by a column of its own, for a producer may write any key, value or header.
A batch has one row in a micro-batch, however its ranges are split into tasks. A range that starts
within a batch has a row for the rest of it, at the range's first offset: the part before may
never have been read.
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
    """A record batch of one row, or None where the row is another task's. `offset`: where the
    response starts."""
    at = max(header.base_offset, offset)
    if wanted.continues and header.base_offset < wanted.start == at:
        return None
    # The time of the append is in the header twice; a producer's first record has the base.
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
    """The record batch with the column that marks unreadable batches: null, unless it is there."""
    if UNREADABLE in batch.schema.names:
        return batch
    nothing = pa.nulls(batch.num_rows, UNREADABLE_FIELD.type)
    return batch.append_column(UNREADABLE_FIELD, nothing)
