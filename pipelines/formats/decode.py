"""The decoder of a source: bytes of records to columns, with the reason for each refused record.

No record is lost silently: a record is good only if its value and its key, as far as they are
decoded, match format and schema completely, or if the file asks for null where they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pipelines.formats.json import JsonValues
from pipelines.formats.json_array import PIECE, exploded
from pipelines.formats.python_values import ArrowValues, of_parts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


OBJECTS, REASONS = "json", "json_reason"
"""Columns of the josefine source: the decoded JSON object, or why the value is none."""

UNREADABLE = "unreadable_batch"
"""An optional column of the josefine source. In a row with the bytes of an unreadable record batch
it identifies that batch; in the row of a record it is null."""

SKIPPED = "_skipped"
"""The flag of a good record of another type, in the parsed rows of a source that skips those."""

UNREADABLE_REASON = "unreadable batch, offsets "
"""Prefix of the reason of such a row. No reason of a format starts like this."""


class Values(Protocol):
    """One format. `parse` is evaluated once for each record, `reason` only for bad ones."""

    def parse(self, data: Column) -> Column: ...

    def is_good(self, data: Column, parsed: Column) -> Column: ...

    def result(self, parsed: Column) -> Column:
        """The column for the pipeline's SQL, from the result of `parse`."""
        ...

    def reason(self, data: Column, parsed: Column) -> Column: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The value side or the key side of a source's records.

    `null_is_good`: a record without one is good; with `leaves_out_null` it also makes no row.
    `null_for_bad`: a record that does not match the format is good, with null.
    `skips`: a record of another type is good, and makes no row; `values` are ArrowValues.
    `explodes`: a value is a JSON array, and each of its elements a row; `framed`: after a frame.
    """

    column: str
    values: Values
    null_is_good: bool = False
    null_for_bad: bool = False
    leaves_out_null: bool = False
    skips: bool = False
    explodes: bool = False
    framed: bool = False
    made: dict[str, tuple[object, Column]] = field(default_factory=dict, compare=False, repr=False)
    """The cached columns of this side by purpose, each with its Spark context (`_once`)."""


Reading = tuple[Side, ...]
"""The decoded sides of a source's records; the others stay bytes."""


def parsed(frame: DataFrame, reading: Reading, *, is_kept: bool = False) -> DataFrame:
    """The source's rows with the raw bytes, the parse result of each side and the flag `_good`.
    `is_kept`: the caller caches them before any filter."""
    from pyspark.sql import functions as F  # noqa: N812

    good = F.lit(True)
    for side in reading:
        if side.explodes:
            frame = exploded(frame, side.column, framed=side.framed)
    for side in reading:
        if _is_read(frame, side):
            made = _once(side, "read", partial(_read, side))
        else:
            made = _once(side, "made", partial(_made, side))
            if not is_kept:
                # Through explode, because the optimizer would copy a plain column's expression
                # into the filter on `_good` and parse every row once for the filter and once more
                # for the columns. In cached rows it sees no expressions.
                made = F.explode(F.array(made))
        frame = frame.select("*", made.alias(_name(side)))
        if not side.null_for_bad:
            good &= _once(side, "good", partial(_good, side))
    if UNREADABLE in frame.columns:
        # The formats text and raw would accept the batch's bytes as a value.
        good &= F.col(UNREADABLE).isNull()
    frame = frame.withColumn("_good", good).drop(OBJECTS, REASONS)
    for side in reading:
        if side.skips:
            frame = frame.withColumn(SKIPPED, _once(side, "skipped", partial(_is_skipped, side)))
    return frame


def _is_skipped(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    assert isinstance(side.values, ArrowValues)
    data = F.col(side.column)
    return F.coalesce(side.values.is_skipped(data, _parsed(side)), F.lit(False)) & F.col("_good")


def _is_read(frame: DataFrame, side: Side) -> bool:
    """Whether the source itself has decoded the values."""
    is_json = side.column == "value" and isinstance(side.values, JsonValues)
    return is_json and OBJECTS in frame.columns


def _made(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return side.values.parse(F.col(side.column))


def _read(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return of_parts(F.col(OBJECTS), F.col(REASONS))


def _good(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    good = _is_good(side)
    return good | F.col(side.column).isNull() if side.null_is_good else good


def _once(side: Side, what: str, make: Callable[[], Column]) -> Column:
    """A column of a side, cached per Spark context: the columns of an object with 19 fields cost
    hundreds of round trips to the JVM."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    found = side.made.get(what)
    if found is None or found[0] is not context:
        found = side.made[what] = (context, make())
    return found[1]


def good_rows(frame: DataFrame, reading: Reading) -> DataFrame:
    """The good rows with the decoded columns in place of the bytes."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = frame.where("_good")
    for side in reading:
        if side.leaves_out_null:
            frame = frame.where(F.col(side.column).isNotNull())
        if side.skips:
            frame = frame.where(~F.col(SKIPPED))
        frame = frame.withColumn(side.column, _once(side, "decoded", partial(_decoded, side)))
    return frame.drop("_good", SKIPPED, UNREADABLE, *PIECE, *(_name(side) for side in reading))


def _decoded(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    decoded = side.values.result(_parsed(side))
    if side.null_for_bad:
        return F.when(_is_good(side), decoded)
    if side.null_is_good:
        return F.when(F.col(side.column).isNotNull(), decoded)
    return decoded


def bad_rows(frame: DataFrame, reading: Reading, source: str) -> DataFrame:
    """The other rows as dead letters, each with its reasons."""
    from pyspark.sql import functions as F  # noqa: N812

    # Not by arrays: the analysis of nested arrays takes minutes.
    reason = F.concat_ws("; ", *_reasons(reading))
    if UNREADABLE in frame.columns:
        mark = F.col(UNREADABLE)
        reason = F.when(mark.isNull(), reason).otherwise(_unreadable_reason(mark))
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
        F.lit("decode").alias("stage"),
    )


def _unreadable_reason(mark: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    first, end = mark.getField("start_offset"), mark.getField("end_offset")
    offsets = (
        F.lit(UNREADABLE_REASON),
        first.cast("string"),
        F.lit(" to "),
        (end - 1).cast("string"),
    )
    return F.concat(*offsets, F.lit(": "), mark.getField("cause"))


def _reasons(reading: Reading) -> Iterator[Column]:
    """The reasons, each null if its side is good."""
    for side in reading:
        if not side.null_for_bad:
            yield _once(side, "reason", partial(_reason, side))


def _reason(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    data = F.col(side.column)
    none = None if side.null_is_good else f"the {side.column} is null"
    reason = F.when(data.isNull(), F.lit(none).cast("string")).when(
        ~_is_good(side), side.values.reason(data, _parsed(side))
    )
    return F.concat(F.lit("key: "), reason) if side.column == "key" else reason


def _name(side: Side) -> str:
    return f"_parsed_{side.column}"


def _parsed(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(_name(side))


def _is_good(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(side.values.is_good(F.col(side.column), _parsed(side)), F.lit(False))


def headers_of(frame: DataFrame) -> list[str]:
    """The column of headers, if the source has one."""
    return [name for name in frame.columns if name == "headers"]
