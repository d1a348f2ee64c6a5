"""The source's columns as Spark types; `josefine_arrow/batches/columns.py` has the Arrow types."""

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from josefine_arrow.batches.columns import UNREADABLE, names
from josefine_spark.read.json_schema import COLUMN, REASON

_SPARK_FIELDS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
_SPARK_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_SPARK_OPTIONAL = [
    StructField("headers", ArrayType(_SPARK_HEADER)),
    StructField("leader_epoch", IntegerType()),
]

_SPARK_UNREADABLE = StructType(
    [
        StructField("start_offset", LongType()),
        StructField("end_offset", LongType()),
        StructField("cause", StringType()),
    ]
)


def spark_schema(
    include_headers: bool,
    columns: Sequence[str] | None = None,
    objects: StructType | None = None,
    *,
    marks_unreadable: bool = False,
) -> StructType:
    """The source's schema, or `columns` of it, then the column that marks unreadable batches, then
    the values as objects of a schema with the reasons for those that are none; each nullable, as in
    Spark's Kafka source."""
    wanted = names(include_headers, columns)
    fields = [field for field in [*_SPARK_FIELDS, *_SPARK_OPTIONAL] if field.name in wanted]
    if marks_unreadable:
        fields.append(StructField(UNREADABLE, _SPARK_UNREADABLE))
    if objects is not None:
        fields += [StructField(COLUMN, objects), StructField(REASON, StringType())]
    return StructType(fields)


def written_schema() -> StructType:
    """The columns of a write-only table: strings, so that SQL can insert them without a cast."""
    return StructType([StructField("key", StringType()), StructField("value", StringType())])
