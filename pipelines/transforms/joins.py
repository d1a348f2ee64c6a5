"""Stateful operators in a frame, found in Spark's own plan of it, and joins that are allowed.

A join with a table is allowed if it only keeps, repeats or leaves out rows of the stream: then the
result of one row does not depend on the other rows of its batch. A join that also keeps unmatched
rows of the table is not: it would produce them again in each batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pipelines.transforms.analysis_errors import STATEFUL, analyzed_plan
from pipelines.transforms.join_bounds import needs_bounds

JOIN = "Join"
_ANY_SIDE, _LEFT, _RIGHT = ("Inner", "Cross"), ("LeftOuter", "LeftSemi", "LeftAnti"), "RightOuter"


def beyond_rows(frame: Any, tables: Collection[str]) -> str | None:
    """The first operator of the plan that has no meaning within a batch; None if there is none.
    `JOIN` for such a join, also if rows of these tables come without a join."""
    words = [match[1] for match in STATEFUL.finditer(analyzed_plan(frame))]
    others = [word for word in words if word != JOIN]
    if others:
        return others[0]
    if not tables:
        return words[0] if words else None
    plan = frame._jdf.queryExecution().analyzed()
    nodes = list(nodes_in(plan))
    joins = [node for node in nodes if node.nodeName() == JOIN]
    unions = [node for node in nodes if node.nodeName() == "Union"]
    fine = (
        _streams(plan, tables)
        # A join within an expression is not among the nodes, so its inputs are unknown.
        and len(joins) == len(words)
        and all(_is_fine(join, tables) for join in joins)
        and all(_streams(each, tables) for union in unions for each in _children(union))
    )
    return None if fine else JOIN


def _is_fine(join: Any, tables: Collection[str]) -> bool:
    left, right = (_streams(child, tables) for child in _children(join))
    kind = str(join.joinType().toString())
    if left and right:
        return False
    if kind in _ANY_SIDE or not (left or right):
        return True
    return kind in _LEFT if left else kind == _RIGHT


def _streams(plan: Any, tables: Collection[str]) -> bool:
    """Whether rows of the stream come through: of any leaf that is not below a table's view."""
    if plan.nodeName() == "View" and plan.desc().identifier().table() in tables:
        return False
    children = list(_children(plan))
    return any(_streams(each, tables) for each in children) if children else True


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
