"""Bytes of records to columns, by their formats; the reason for every record that is not taken.

Nothing is lost in silence: a record is good only when each side that is decoded, its value and its
key, is wholly what its format and schema say, or the file asks for null where it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pipelines.json_values import JsonValues

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


OBJECTS = "json"
"""A column of the josefine source: the object that a value is, null where it has not read it."""


class Values(Protocol):
    """One format. `parse` is asked once for each record, `reason` for bad ones alone."""

    def parse(self, data: Column) -> Column: ...

    def is_good(self, data: Column, parsed: Column) -> Column: ...

    def result(self, parsed: Column) -> Column:
        """The column that SQL sees, of what `parse` gave."""
        ...

    def reason(self, data: Column, parsed: Column) -> Column: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The value or the key of a source's records.

    `null_is_good`: a record that has none is a good one; with `leaves_out_null` it is no row, too.
    `null_for_bad`: one that is not what the format expects is good.
    """

    column: str
    values: Values
    null_is_good: bool = False
    null_for_bad: bool = False
    leaves_out_null: bool = False


Reading = tuple[Side, ...]
"""The sides of a source's records that are decoded; the others stay bytes."""


def parsed(frame: DataFrame, reading: Reading) -> DataFrame:
    """The source's rows with the raw bytes, what each side was parsed to and the flag `_good`."""
    from pyspark.sql import functions as F  # noqa: N812

    good = F.lit(True)
    for side in reading:
        data, name = F.col(side.column), f"_parsed_{side.column}"
        made, read = side.values.parse(data), _read(frame, side)
        if read is not None:
            made = F.when(read.isNull(), made)
        # Through explode, because the optimizer would copy a plain column's expression into the
        # filter on `_good` and parse every row once for the filter and once more for the columns.
        frame = frame.select("*", F.explode(F.array(made)).alias(name))
        if read is not None:
            # Not within explode, which Spark interprets where it parses.
            frame = frame.withColumn(name, F.coalesce(read, F.col(name)))
        if not side.null_for_bad:
            is_good = _is_good(side)
            if read is not None:
                is_good = F.col(OBJECTS).isNotNull() | is_good
            good &= is_good | (data.isNull() if side.null_is_good else F.lit(False))
    return frame.withColumn("_good", good).drop(OBJECTS)


def _read(frame: DataFrame, side: Side) -> Column | None:
    """What a side was read to by who read the source, null where by nobody; None: it never is."""
    from pyspark.sql import functions as F  # noqa: N812

    if not isinstance(side.values, JsonValues) or OBJECTS not in frame.columns:
        return None
    return side.values.of_object(F.col(OBJECTS)) if side.column == "value" else None


def good_rows(frame: DataFrame, reading: Reading) -> DataFrame:
    """The good rows with the decoded columns in place of the bytes."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = frame.where("_good")
    for side in reading:
        decoded = side.values.result(_parsed(side))
        if side.leaves_out_null:
            frame = frame.where(F.col(side.column).isNotNull())
        if side.null_for_bad:
            decoded = F.when(_is_good(side), decoded)
        elif side.null_is_good:
            decoded = F.when(F.col(side.column).isNotNull(), decoded)
        frame = frame.withColumn(side.column, decoded)
    return frame.drop("_good", *(f"_parsed_{side.column}" for side in reading))


def bad_rows(frame: DataFrame, reading: Reading, source: str) -> DataFrame:
    """The other rows as dead letters, each with its reasons."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.where("not _good").select(
        F.lit(source).alias("source"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        # Not by arrays, whose analysis takes minutes where others are within.
        F.concat_ws("; ", *_reasons(reading)).alias("reason"),
        "key",
        "value",
        *headers_of(frame),
    )


def _reasons(reading: Reading) -> Iterator[Column]:
    """Each null where its side is good."""
    from pyspark.sql import functions as F  # noqa: N812

    for side in reading:
        if side.null_for_bad:
            continue
        data = F.col(side.column)
        none = None if side.null_is_good else f"the {side.column} is null"
        reason = F.when(data.isNull(), F.lit(none).cast("string")).when(
            ~_is_good(side), side.values.reason(data, _parsed(side))
        )
        yield F.concat(F.lit("key: "), reason) if side.column == "key" else reason


def _parsed(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(f"_parsed_{side.column}")


def _is_good(side: Side) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(side.values.is_good(F.col(side.column), _parsed(side)), F.lit(False))


def headers_of(frame: DataFrame) -> list[str]:
    """The column of headers, where records have them."""
    return [name for name in frame.columns if name == "headers"]
