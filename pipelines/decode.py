"""JSON values to a struct column, and the reason for every value that is none.

Nothing is lost in silence: a value is good only when all of it is one JSON object that fits the
schema. Spark's parser alone would take `{"a":1} rubbish`, would give no reason, and would turn an
empty value into a null row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.strict_json import reasons

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

BAD_TEXT = "_josefine_bad_text"
"""Where Spark's parser puts a text that does not fit; never visible to a user."""

_STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": BAD_TEXT,
    # JSON as RFC 8259 has it: Spark would also take 'single quotes' and NaN.
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


def parsed(
    frame: DataFrame, schema: StructType, *, strict: bool = False, tombstones: bool = False
) -> DataFrame:
    """The source's rows with the raw `value`, the column `_parsed` and the flag `_good`.

    `tombstones`: a row without a value is a good one.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructType

    text = F.col("value").cast("string")
    wide = StructType([*schema.fields]).add(BAD_TEXT, StringType())
    # Through explode, because the optimizer would copy a plain column's expression into the filter
    # on `_good` and parse every row once for the filter and once more for the columns.
    frame = frame.select("*", F.explode(F.array(F.from_json(text, wide, _STRICT))).alias("_parsed"))
    # The parser stops at the object's end. When the first closing brace is the last character,
    # that end is the text's end; else (nested objects, rubbish behind) ask the slower way.
    ends_there = (F.instr(text, "}") == F.length(text)) | (_json_values(text) == 1)
    good = (
        F.col("_parsed").isNotNull()
        & F.col(f"_parsed.{BAD_TEXT}").isNull()
        & F.expr("is_valid_utf8(value)")
        & ends_there
    )
    if strict:
        good &= F.coalesce(*reasons(text, schema)).isNull()
    if tombstones:
        good |= F.col("value").isNull()
    return frame.withColumn("_good", F.coalesce(good, F.lit(False)))


def good_rows(frame: DataFrame, schema: StructType, *, tombstones: bool = False) -> DataFrame:
    """The good rows with `value` as the struct of the schema, null where there was no value."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.struct(*[F.col("_parsed").getField(name).alias(name) for name in schema.names])
    if tombstones:
        value = F.when(F.col("value").isNotNull(), value)
    return frame.where("_good").withColumn("value", value).drop("_parsed", "_good")


def bad_rows(
    frame: DataFrame, schema: StructType, source: str, *, strict: bool = False
) -> DataFrame:
    """The other rows as dead letters, each with its reason."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("value").cast("string")
    wrong = [_misfit(text, field) for field in schema.fields]
    wrong += reasons(text, schema) if strict else []
    misfits = F.array_compact(F.array(*wrong))
    # Two readers: one reads to the end but takes single quotes, the other the reverse.
    is_json = (F.coalesce(_json_values(text), F.lit(0)) == 1) & F.try_parse_json(text).isNotNull()
    reason = (
        F.when(F.col("value").isNull(), "the value is null")
        .when(~F.expr("is_valid_utf8(value)"), "not UTF-8 text")
        .when(~is_json, "not JSON")
        .when(F.json_object_keys(text).isNull(), "JSON, but not an object")
        .otherwise(F.concat(F.lit("does not fit the schema: "), F.array_join(misfits, ", ")))
    )
    return frame.where("not _good").select(
        F.lit(source).alias("source"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        reason.alias("reason"),
        "key",
        "value",
        *headers_of(frame),
    )


def headers_of(frame: DataFrame) -> list[str]:
    """The column of headers, where records have them."""
    return [name for name in frame.columns if name == "headers"]


def _json_values(text: Column) -> Column:
    """How many JSON values a text is: as elements of one array, so that it is read to its end."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))


def _misfit(text: Column, field: object) -> Column:
    """`name TYPE` when this field alone does not fit, else null. Only bad rows pay for it."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    assert isinstance(field, StructField)
    alone = StructType([field]).add(BAD_TEXT, StringType())
    bad = F.from_json(text, alone, _STRICT).getField(BAD_TEXT).isNotNull()
    return F.when(bad, F.lit(f"{field.name} {field.dataType.simpleString().upper()}"))
