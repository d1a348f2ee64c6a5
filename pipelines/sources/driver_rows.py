"""Records on the driver as a frame with a source's columns, without a job or a Python worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipelines.model.pipeline import Source
from pipelines.sources.local_records import Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def source_frame(spark: SparkSession, source: Source, rows: Iterable[Row]) -> DataFrame:
    """A frame of a few records, for tests and previews: Spark plans Arrow rows as literal ones."""
    return spark.createDataFrame(table_of(rows, headers=source.headers))


def table_of(rows: Iterable[Row], *, headers: bool) -> pa.Table:
    """The rows as an Arrow table; `headers`: with the column of that name."""
    import pyarrow as pa

    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(header)))
    schema = pa.schema(fields)
    names = schema.names
    records = [dict(zip(names, row, strict=True)) for row in rows]
    for record in records if headers else ():
        record["headers"] = [{"key": key, "value": value} for key, value in record["headers"]]
    return pa.Table.from_pylist(records, schema=schema)
