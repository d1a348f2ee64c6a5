"""A topic sink's rows as records: a key and a value, made from columns.

The value is the column `value` if there is one, else a JSON object of all columns but the key's.
Text and bytes stay as they are; structs, arrays and maps become JSON, with their nulls and with
every digit of their times: a source that reads the topic gets equal values. A key of several
columns is a JSON object of them, in the file's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.base.errors import Place
from pipelines.base.quoting import quoted
from pipelines.model.pipeline import Mode, Placed, Sink
from pipelines.model.topic import SinkTopic
from pipelines.spark.errors import refusal
from pipelines.transforms.analysis_errors import refuse_no_condition

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
    if sink.tombstone_when is not None:
        value = _tombstone(sink.tombstone_when, value, rows)
    return rows.select(value) if key is None else rows.select(key, value)


def _tombstone(condition: Placed, value: Column, rows: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    refuse_no_condition(condition, rows)
    # A condition that is null is not true: the change is a record with a value.
    return F.when(~F.coalesce(F.expr(condition.bound), F.lit(False)), value).alias(VALUE)


def _key_of(sink: Sink, target: SinkTopic, rows: DataFrame) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812

    parts = [_key_part(sink, target, rows, name, place) for name, place in target.keys]
    if not parts:
        return None
    if len(parts) > 1:
        fields = F.struct(*[F.col(quoted(name)) for name in parts])
        # In UTC, so that a key is the same in each session's time zone.
        return F.to_json(fields, {**JSON_TEXT, "timeZone": "UTC"}).alias("key")
    (name,) = parts
    column = F.col(quoted(name))
    key = column if _is_bytes(rows.schema[name].dataType) else column.cast("string")
    if sink.mode is Mode.UPDATE:
        # A topic that is compacted refuses a record without a key, and other topics would keep
        # changes that no later one replaces.
        wrong = f"sink `{sink.name}`: `{name}` is null, and each change needs a key: expected "
        wrong += f"coalesce({name}, ...) in the SQL, or several columns in `key`"
        key = F.coalesce(key, F.raise_error(F.lit(wrong)).cast(key_type(rows, name)))
    return key.alias("key")


def key_type(rows: DataFrame, name: str) -> str:
    """The type of a key made of one column: bytes stay bytes."""
    from pyspark.sql.types import BinaryType

    return "binary" if isinstance(rows.schema[name].dataType, BinaryType) else "string"


def _key_part(sink: Sink, target: SinkTopic, rows: DataFrame, said: str, place: Place) -> str:
    """The name of a key's column in the rows. Raises ConfigError."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

    path = f"sinks.{sink.name}.key"
    name = _named(said, rows)
    if name is None:
        have = ", ".join(rows.columns)
        message = f"no column {said} in `{sink.input}`; it has: {have}"
        raise refusal(place, path, message)
    kind = rows.schema[name].dataType
    if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
        message = f"`{name}` is {kind.simpleString().upper()}: expected one value, such as a number"
        raise refusal(place, path, message)
    if isinstance(kind, BinaryType) and len(target.keys) > 1:
        message = f"`{name}` is BINARY, which JSON has not: expected hex({name}) in the SQL"
        raise refusal(place, path, message)
    return name


def _value_of(sink: Sink, target: SinkTopic, rows: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType

    name = _named(VALUE, rows)
    if name is None:
        keys = {_named(key, rows) for key, _ in target.keys}
        others = [F.col(quoted(each)) for each in rows.columns if each not in keys]
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
