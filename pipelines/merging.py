"""Stateless aggregation: each batch's partial counts, sums, minima and maxima, merged by key.

There is no state outside the table, so neither a late event nor a lost checkpoint can spoil it:
a batch's partials are added to the table in one chained commit, exactly once. Only functions whose
partials merge are offered (no avg: keep a sum and a count). Null inputs count nowhere, as in SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.model import Aggregate, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MERGED: Mapping[str, str] = {
    "count": "t.{c} + s.{c}",
    "sum": "coalesce(t.{c} + s.{c}, t.{c}, s.{c})",
    "min": "least(t.{c}, s.{c})",
    "max": "greatest(t.{c}, s.{c})",
}
"""How a row of the table (t) and one of the batch (s) become one; least/greatest skip nulls."""


def partials(frame: DataFrame, sink: Sink) -> DataFrame:
    """A batch's rows reduced to one per key."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.expr(_expression(aggregate)) for aggregate in sink.aggregates]
    return frame.groupBy(*[F.col(f"`{key}`") for key in sink.keys]).agg(*columns)


def _expression(aggregate: Aggregate) -> str:
    argument = f"`{aggregate.argument}`" if aggregate.argument else "*"
    return f"{aggregate.function}({argument}) AS `{aggregate.column}`"


def merged_columns(sink: Sink) -> dict[str, str]:
    """Column → the SQL of its value when the key is in the table already."""
    return {a.column: _MERGED[a.function].format(c=f"`{a.column}`") for a in sink.aggregates}
