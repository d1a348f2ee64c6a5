"""The Arrow columns of decoded records: exactly those of Spark's own Kafka source, and optionally
`leader_epoch` and `unreadable_batch`.

PySpark 4.2 compares Arrow schemas exactly (SPARK-55583): binary not large_binary, UTC timestamps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
HEADERS_FIELD = pa.field("headers", pa.list_(pa.field("element", _HEADER)))
_OPTIONAL = [HEADERS_FIELD, pa.field("leader_epoch", pa.int32())]


UNREADABLE = "unreadable_batch"
"""The marker column, null in every record's row. Unlike a header, no producer can write it."""
UNREADABLE_FIELD = pa.field(
    UNREADABLE,
    pa.struct(
        [
            pa.field("start_offset", pa.int64()),
            pa.field("end_offset", pa.int64()),
            pa.field("cause", pa.string()),
        ]
    ),
)


def arrow_schema(include_headers: bool, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of a read, equal to the result of PySpark's `to_arrow_schema` (a test compares
    them)."""
    wanted = names(include_headers, columns)
    return pa.schema([field for field in [*_FIELDS, *_OPTIONAL] if field.name in wanted])


def names(include_headers: bool, columns: Sequence[str] | None) -> Sequence[str]:
    """The columns of a read: those requested, else all, with headers if `include_headers`."""
    if columns is not None:
        return columns
    return [field.name for field in ([*_FIELDS, HEADERS_FIELD] if include_headers else _FIELDS)]


TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
"""Spark's timestamps are microseconds in 64 bits. A timestamp outside of their range becomes null:
some producers write nanoseconds as milliseconds, and wrapped to 64 bits they would be any time."""


class Decoded(NamedTuple):
    """The decoded records of one partition's fetch response."""

    batches: list[Any]
    """pyarrow RecordBatches, none of them empty, in offset order."""
    next_offset: int
    """The first offset after these bytes: the offset to fetch next."""
