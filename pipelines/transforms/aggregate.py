"""Stateless aggregation: each batch's partial counts, sums, minima and maxima, merged by key.

There is no state outside the table, so neither a late event nor a lost checkpoint can spoil it:
a batch's partials are added to the table in one chained commit, exactly once. Only functions whose
partials merge are offered (no avg: keep a sum and a count). Null inputs count nowhere, as in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.base.quoting import quoted
from pipelines.model.direct_merge import MERGED
from pipelines.model.pipeline import Aggregate, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A MERGE of a batch's rows (s) into the table's (t), in SQL.

    A row whose key the table has (`on`, or None: equal in all of `keys`, nulls too) is deleted
    where `delete_when` (None: none is), else changed by `update` (empty: none is) where
    `update_when` (None: each is). Another is inserted where `insert_when` (None: each is) with
    `columns`; the table fills its other columns. `source`: makes the merged rows from the batch and
    from the table at the time of the attempt; None: the batch's rows are merged.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    update: Mapping[str, str]
    on: str | None = None
    update_when: str | None = None
    delete_when: str | None = None
    insert_when: str | None = None
    source: Callable[[DataFrame, DataFrame], DataFrame] | None = field(default=None, compare=False)


def partials(frame: DataFrame, sink: Sink) -> DataFrame:
    """A batch's rows reduced to one per key."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.expr(_expression(aggregate)) for aggregate in sink.aggregates]
    return frame.groupBy(*[F.col(quoted(key)) for key in sink.keys]).agg(*columns)


def _expression(aggregate: Aggregate) -> str:
    argument = quoted(aggregate.argument) if aggregate.argument else "*"
    return f"{aggregate.function}({argument}) AS {quoted(aggregate.column)}"


def fold(sink: Sink) -> Merge:
    """The MERGE that adds partials to the table."""
    merged = {a.column: MERGED[a.function].format(c=quoted(a.column)) for a in sink.aggregates}
    return Merge(keys=sink.keys, columns=(*sink.keys, *merged), update=merged)


def folded(rows: DataFrame, table: DataFrame, sink: Sink) -> DataFrame:
    """What the MERGE of these partials stores, as a query: it fails where the MERGE does."""
    from pyspark.sql import functions as F  # noqa: N812

    how, kinds = fold(sink), {field.name: field.dataType for field in table.schema.fields}
    new, old = rows.alias("s"), table.alias("t")
    same = F.expr(" AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in how.keys))
    changed = new.join(old, same).select(
        *[F.expr(sql).cast(kinds[name]).alias(name) for name, sql in how.update.items()]
    )
    # Apart: a partial that does not fit the table's type may fit it added to a row.
    inserted = new.join(old, same, "left_anti").select(
        *[F.col(f"s.{quoted(name)}").cast(kinds[name]).alias(name) for name in how.update]
    )
    return changed.unionByName(inserted)
