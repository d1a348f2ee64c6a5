"""Time bounds of a join of two streams: found with sqlglot for `lint`, by Spark for a run.

Without Spark only certain errors are reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

JOIN = "Join"
_ONE_SIDED = (exp.GT, exp.GTE, exp.LT, exp.LTE)


def why_unbounded(sql: str, columns: Collection[str]) -> str:
    """The error of a join of streams with these time columns; "" if its bounds are complete."""
    try:
        query = sqlglot.parse_one(sql, read="spark")
    except SqlglotError:
        return ""
    if query.find(exp.Join) is None:
        return ""
    names = {name.lower() for name in columns}
    bounds = sum(_bounds(each, names) for each in query.find_all(exp.Predicate))
    return "" if bounds >= 2 else needs_bounds(names)


def needs_bounds(names: Collection[str]) -> str:
    """The error for missing bounds, with these time columns."""
    some = sorted(names)[-1]
    return (
        "the join does not limit how long a row waits for its pair, so all would wait for ever: "
        f"expected both bounds, such as b.{some} >= a.{some} and b.{some} <= a.{some} + interval "
        "15 minutes"
    )


def _bounds(predicate: exp.Expr, names: Collection[str]) -> int:
    """The number of bounds of one time by another in a predicate."""
    times = {
        (each.table.lower(), each.name.lower())
        for each in predicate.find_all(exp.Column)
        if each.name.lower() in names
    }
    if len(times) < 2:
        return 0
    return 2 if isinstance(predicate, (exp.Between, exp.EQ)) else isinstance(predicate, _ONE_SIDED)


def nodes_in(plan: Any) -> Iterator[Any]:
    """The nodes of Spark's plan, parents first."""
    yield plan
    for child in _children(plan):
        yield from nodes_in(child)


def _children(plan: Any) -> Iterator[Any]:
    found = plan.children()
    return (found.apply(n) for n in range(found.size()))


def why_without_end(made: Any, columns: Collection[str]) -> str:
    """The error of a frame with one join of two streams with these time columns; "" if the state of
    both sides is bounded.

    Spark itself requires bounds for one side of an outer join only, and accepts an inner join whose
    rows wait for ever: its state grows with the topic. So this checks the same join as a left and
    as a right outer join.
    """
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
        return needs_bounds({name.lower() for name in columns})
    return ""
