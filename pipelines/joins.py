"""What of a frame looks beyond single rows of the stream: by Spark's own plan of it.

A join with a table is none of that where it keeps, repeats or leaves out rows of the stream: what
becomes of one row does not hang on which others are in its batch. Rows of the table that no row of
the stream meets would come anew with each batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pipelines.refusals import STATEFUL, analyzed_plan

JOIN = "Join"
_ANY_SIDE, _LEFT, _RIGHT = ("Inner", "Cross"), ("LeftOuter", "LeftSemi", "LeftAnti"), "RightOuter"


def beyond_rows(frame: Any, tables: Collection[str]) -> str | None:
    """The first word of the plan that means nothing over a batch; None: there is none. Of a join
    that does `JOIN`, also where rows of these tables come without one."""
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
        # One within an expression is not found as a node: whose rows it has is not known.
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
    """Those of Spark's plan, the upper ones first."""
    yield plan
    for child in _children(plan):
        yield from nodes_in(child)


def _children(plan: Any) -> Iterator[Any]:
    found = plan.children()
    return (found.apply(n) for n in range(found.size()))
