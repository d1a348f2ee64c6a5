"""The columns of the source, exactly those of Spark's own Kafka source, as Arrow wants them.

PySpark 4.2 compares Arrow schemas exactly (SPARK-55583): binary not large_binary, UTC timestamps.
"""

from typing import Any, NamedTuple

import pyarrow as pa

DDL = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, "
    "timestamp TIMESTAMP, timestampType INT"
)
HEADERS_DDL = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"

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


def ddl(include_headers: bool) -> str:
    """The source's schema as Spark DDL; every column nullable, as in Spark's Kafka source."""
    return f"{DDL}, {HEADERS_DDL}" if include_headers else DDL


def arrow_schema(include_headers: bool) -> pa.Schema:
    """The same as Arrow: what PySpark's `to_arrow_schema` gives for `ddl` (a test holds it)."""
    return pa.schema([*_FIELDS, HEADERS_FIELD] if include_headers else _FIELDS)


class Decoded(NamedTuple):
    """What one fetch response of one partition gave."""

    batches: list[Any]
    """pyarrow RecordBatches, none of them empty, in offset order."""
    next_offset: int
    """The first offset that these bytes say nothing about: where to fetch next."""
