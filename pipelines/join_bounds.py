"""Whether a join of two streams says how long a row waits for its pair.

By sqlglot for `lint`, where only what is certain is told; by Spark for `plan` and `run`. Spark
itself asks it of what an outer join keeps, and takes an inner one whose rows wait for ever: its
state grows with the topic.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pipelines.joins import JOIN, nodes_in

_ONE_SIDED = (exp.GT, exp.GTE, exp.LT, exp.LTE)


def why_unbounded(sql: str, columns: Collection[str]) -> str:
    """What is missing in the join of streams that have these times; "" where nothing is."""
    try:
        query = sqlglot.parse_one(sql, read="spark")
    except SqlglotError:
        return ""
    if query.find(exp.Join) is None:
        return ""
    names = {name.lower() for name in columns}
    bounds = sum(_bounds(each, names) for each in query.find_all(exp.Predicate))
    return "" if bounds >= 2 else _needs_bounds(names)


def why_without_end(made: Any, columns: Collection[str]) -> str:
    """The same of a frame with one join of two streams: whether Spark would give up the rows of
    both sides."""
    from pyspark.errors import PySparkException

    jvm = made.sparkSession._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    checker = catalyst.analysis.UnsupportedOperationChecker
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    plan = made._jdf.queryExecution().analyzed()
    (join,) = (node for node in nodes_in(plan) if node.nodeName() == JOIN)
    try:
        for kept in ("left_outer", "right_outer"):
            kind = catalyst.plans.JoinType.apply(kept)
            outer = join.copy(join.left(), join.right(), kind, join.condition(), join.hint())
            checker.checkForStreaming(outer, append)
    except PySparkException:
        return _needs_bounds({name.lower() for name in columns})
    return ""


def _needs_bounds(names: Collection[str]) -> str:
    some = sorted(names)[-1]
    return (
        "the join does not say how long a row waits for its pair, so all would wait for ever: "
        f"expected both bounds, such as b.{some} >= a.{some} and b.{some} <= a.{some} + interval "
        "15 minutes"
    )


def _bounds(predicate: exp.Expr, names: Collection[str]) -> int:
    """How many bounds of one time by another it is."""
    times = {
        (each.table.lower(), each.name.lower())
        for each in predicate.find_all(exp.Column)
        if each.name.lower() in names
    }
    if len(times) < 2:
        return 0
    return 2 if isinstance(predicate, (exp.Between, exp.EQ)) else isinstance(predicate, _ONE_SIDED)
