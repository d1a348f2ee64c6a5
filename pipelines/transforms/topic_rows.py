"""A topic sink's rows as records: a key and a value, made from columns.

The value is the column `value` if there is one, else a JSON object of all columns but the key's.
Text and bytes stay as they are; structs, arrays and maps become JSON, with their nulls and with
every digit of their times: a source that reads the topic gets equal values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.base.quoting import quoted
from pipelines.model.pipeline import Sink
from pipelines.model.topic import SinkTopic
from pipelines.spark.errors import refusal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

VALUE = "value"
JSON_TEXT = {
    "ignoreNullFields": "false",
    # Spark writes milliseconds by default. XXXXX: the offset of local mean time has seconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of `to_json` with which no value loses a digit."""


def topic_rows(sink: Sink, target: SinkTopic, rows: DataFrame) -> DataFrame:
    """The rows as `key` and `value`. Raises ConfigError if they cannot be made."""
    key = _key_of(sink, target, rows)
    value = _value_of(sink, target, rows)
    return rows.select(value) if key is None else rows.select(key, value)


def _key_of(sink: Sink, target: SinkTopic, rows: DataFrame) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if target.key is None:
        return None
    path = f"sinks.{sink.name}.key"
    name = _named(target.key, rows)
    if name is None:
        have = ", ".join(rows.columns)
        message = f"no column {target.key} in `{sink.input}`; it has: {have}"
        raise refusal(target.key_place, path, message)
    kind = rows.schema[name].dataType
    if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
        message = f"`{name}` is {kind.simpleString().upper()}: expected one value, such as a number"
        raise refusal(target.key_place, path, message)
    column = F.col(quoted(name))
    return (column if _is_bytes(kind) else column.cast("string")).alias("key")


def _value_of(sink: Sink, target: SinkTopic, rows: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType

    name = _named(VALUE, rows)
    if name is None:
        key = _named(target.key, rows) if target.key else None
        others = [F.col(quoted(each)) for each in rows.columns if each != key]
        if not others:
            message = f"`{sink.input}` has no column but the key: a record needs a value"
            raise refusal(sink.place, f"sinks.{sink.name}", message)
        return F.to_json(F.struct(*others), JSON_TEXT).alias(VALUE)
    kind, column = rows.schema[name].dataType, F.col(quoted(name))
    if _is_bytes(kind):
        return column.alias(VALUE)
    if isinstance(kind, (ArrayType, MapType, StructType)):
        return F.to_json(column, JSON_TEXT).alias(VALUE)
    message = f"column value of `{sink.input}` is {kind.simpleString().upper()}"
    message += ": expected STRING, BINARY, or parts that become JSON"
    raise refusal(sink.place, f"sinks.{sink.name}", message)


def _is_bytes(kind: DataType) -> bool:
    from pyspark.sql.types import BinaryType, StringType

    return isinstance(kind, (StringType, BinaryType))


def _named(name: str, rows: DataFrame) -> str | None:
    """The column of that name in any case, as Spark resolves names."""
    return next((each for each in rows.columns if each.lower() == name.lower()), None)
