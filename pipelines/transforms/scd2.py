"""SCD type 2: every version of each key, with the time range in which it is valid.

A version is a row with its keys and its order columns; it is valid until the next version of its
key starts. So the table depends on the set of versions alone: it is the same however they are cut
into batches, however late they come, and when a batch is read again. Two rows with equal keys and
order are one version; which of them stays is decided as in `upsert.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pipelines.base.quoting import quoted
from pipelines.model.pipeline import Sink
from pipelines.transforms import unavailable
from pipelines.transforms.aggregate import Merge
from pipelines.transforms.ordering import PRIVATE, ranked
from pipelines.transforms.upsert import MARK, latest_of, order_of, with_flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

SINCE, UNTIL, CURRENT = "_valid_from", "_valid_to", "_current"
OWN = (SINCE, UNTIL, CURRENT)
"""The columns that the sink adds to the table."""


def identity(sink: Sink) -> tuple[str, ...]:
    """The columns that identify a version."""
    assert sink.latest is not None
    return (*sink.keys, *sink.latest.columns)


def versions(frame: DataFrame, sink: Sink) -> DataFrame:
    """A batch's rows as versions, as an empty table would have them."""
    return _held(unavailable.marked(with_flag(frame, sink), sink), sink)


def history(sink: Sink, schema: StructType) -> Merge:
    """The MERGE of a batch's versions; it also updates the table's versions of the same keys.

    `schema` is that of `versions`.
    """
    names = identity(sink)
    but = {name.lower() for name in names}
    columns = tuple(name for name in schema.names if not name.startswith(PRIVATE))
    new, old = (f"struct({', '.join(_named(ranked(schema, but, side)))})" for side in ("s.", "t."))
    return Merge(
        keys=names,
        columns=columns,
        update={name: f"s.{quoted(name)}" for name in columns if name.lower() not in but},
        update_when=f"NOT ({new} <=> {old})",
        source=lambda frame, table: _with_table(frame, table, sink),
    )


def _with_table(frame: DataFrame, table: DataFrame, sink: Sink) -> DataFrame:
    """All versions of the batch's keys, from the batch and the table."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [quoted(name) for name in frame.columns if name not in OWN]
    keys = frame.select(*[F.col(quoted(key)).alias(f"_key_{n}") for n, key in enumerate(sink.keys)])
    same = [table[quoted(key)].eqNullSafe(F.col(f"_key_{n}")) for n, key in enumerate(sink.keys)]
    if unavailable.KEPT in frame.columns:
        # What a version of the table has, it has.
        table = table.withColumn(unavailable.KEPT, F.array().cast("array<string>"))
    there = table.join(keys.distinct(), reduce(lambda one, other: one & other, same), "left_semi")
    return _held(frame.select(*columns).unionByName(there.select(*columns)), sink)


def _held(frame: DataFrame, sink: Sink) -> DataFrame:
    """Rows with their flag, one for each version, with the time range in which it is valid."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    assert sink.latest is not None
    if unavailable.KEPT in frame.columns:
        frame = _filled(frame, sink)
    each = latest_of(frame, replace(sink, keys=identity(sink)))
    order = [F.col(quoted(name)) for name in sink.latest.columns]
    window = Window.partitionBy(*[F.col(quoted(key)) for key in sink.keys]).orderBy(*order)
    is_last = F.lead(F.lit(1)).over(window).isNull()
    is_there = ~F.col(MARK) if MARK in frame.columns else F.lit(True)
    return each.select(
        "*",
        order[0].alias(SINCE),
        F.lead(order[0]).over(window).alias(UNTIL),
        (is_last & is_there).alias(CURRENT),
    )


def _filled(frame: DataFrame, sink: Sink) -> DataFrame:
    """Marked rows with the values of the preceding versions, and still marked.

    By RANGE: a version's other rows, such as the table's row of the same change, are in the window.
    """
    assert sink.latest is not None
    keys = ", ".join(f"`{key}`" for key in sink.keys)
    order = ", ".join(f"`{name}`" for name in sink.latest.columns)
    window = f"PARTITION BY {keys} ORDER BY {order} RANGE UNBOUNDED PRECEDING"
    found = unavailable.with_found(frame, sink, order_of(sink, frame.schema), window, "false")
    return unavailable.without_found(unavailable.filled(found))


def _named(terms: Iterable[str]) -> list[str]:
    """The terms with generated names: Spark compares only structs with equal field names."""
    return [f"{term} AS c{n}" for n, term in enumerate(terms)]
