"""Time bounds of a join of two streams, found in Spark's own plan of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pipelines.transforms.join_bounds import needs_bounds

JOIN = "Join"


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
