"""The columns of decoded records as Arrow has them: those of Spark's own Kafka source exactly, and
`leader_epoch` and `unreadable_batch` where they are asked for.

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
"""The column that is null in every record's row. No producer can write it, unlike a header."""
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
    """The same as Arrow: what PySpark's `to_arrow_schema` gives for it (a test holds it)."""
    wanted = names(include_headers, columns)
    return pa.schema([field for field in [*_FIELDS, *_OPTIONAL] if field.name in wanted])


def names(include_headers: bool, columns: Sequence[str] | None) -> Sequence[str]:
    """The columns of a read: those asked for, else all, headers only where they are asked for."""
    if columns is not None:
        return columns
    return [field.name for field in ([*_FIELDS, HEADERS_FIELD] if include_headers else _FIELDS)]


TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
"""Spark's timestamps are microseconds in 64 bits. One that is further from 1970 is null: there are
producers that give nanoseconds for milliseconds, and wrapped to 64 bits they are any time."""


class Decoded(NamedTuple):
    """What one fetch response of one partition gave."""

    batches: list[Any]
    """pyarrow RecordBatches, none of them empty, in offset order."""
    next_offset: int
    """The first offset that these bytes say nothing about: where to fetch next."""
