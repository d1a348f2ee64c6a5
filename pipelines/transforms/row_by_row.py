"""Allow-list of row-by-row plans: Spark's operators whose result of a row needs no other row.

Where a stream is cut into batches is arbitrary. So the rows of a transform may depend on single
records and on lookup tables only. A plan is accepted if every leaf is the batch or a lookup table,
and every node is in a list. An operator that is in no list is refused, also one of a newer Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

JOIN = "a join of rows of the stream"
TABLE_ROWS = "rows of a table"
CONSTANTS = "rows without a record"
SUBQUERY = "a subquery over the stream"

_ROW_NODES = frozenset(
    {"Project", "Filter", "Generate", "Expand", "SubqueryAlias", "View", "Union", "PipeOperator"}
    | {"Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint"}
    | {"CollectMetrics", "MapInPandas", "MapInArrow"}
)
"""Operators that compute each row from one row. The last two call Python with many rows at once:
as with a UDF, that its result is row by row is the promise of its author."""
_TABLE_NODES = frozenset(
    {"Aggregate", "Distinct", "Except", "Intersect", "Join", "Sort", "Window"} | _ROW_NODES
)
"""Operators over lookup tables and constants only, which are the same for all rows of a batch."""
_CONSTANT_LEAVES = frozenset({"OneRowRelation", "LocalRelation", "Range"})
_ANY_SIDE, _LEFT, _RIGHT = ("Inner", "Cross"), ("LeftOuter", "LeftSemi", "LeftAnti"), "RightOuter"

WORDS = {
    "Aggregate": "an aggregate or GROUP BY",
    "Distinct": "DISTINCT or UNION without ALL",
    "Deduplicate": "DISTINCT (dropDuplicates)",
    "Window": "a window function (OVER)",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Tail": "LIMIT (tail)",
    "Offset": "OFFSET",
    "Sort": "ORDER BY",
    "Intersect": "INTERSECT",
    "Except": "EXCEPT",
    "Sample": "TABLESAMPLE",
    "EventTimeWatermark": "a watermark (withWatermark)",
    "LateralJoin": "LATERAL",
    "ScriptTransformation": "TRANSFORM … USING",
}
"""Spark's operator → what the user wrote."""


def why_refused(word: str, tables: Iterable[str] = ()) -> str:
    """The error of a transform with such a part. `tables`: the lookup tables that it reads."""
    names = " and ".join(f"`{name}`" for name in tables)
    if word == TABLE_ROWS or (word == JOIN and names):
        return (
            f"{names or 'a table'} may only add to each row of the stream, or leave it out: by an "
            "inner or cross join, or one that is outer, semi or anti on the stream's side"
        )
    if word == CONSTANTS:
        return (
            "rows that come from no input would be written again with each batch: expected every "
            "SELECT, also each side of a UNION ALL, to read an input"
        )
    if word == SUBQUERY:
        return (
            "a subquery reads the stream, so a row would depend on the other rows of its batch: "
            "expected a subquery over tables (`type: delta`) only"
        )
    if word.endswith("()"):
        return (
            f"`{word}` gives another value when a batch is read again: expected an expression "
            "over the record's columns, such as its `partition`, `offset` or `timestamp`"
        )
    return (
        f"{word} needs more than one batch's rows to mean anything; a transform may only look "
        "at single rows (to aggregate, use a sink with mode merge, or windows with a `watermark`)"
    )


def refused_part(
    frame: Any, streams: Iterable[str], tables: Iterable[str], *, has_constants: bool
) -> str | None:
    """What in a frame is not row by row; None if it is. `streams`, `tables`: the views that it may
    read. `has_constants`: whether literal rows in a join or subquery are known to be constant."""
    plan = frame._jdf.queryExecution().analyzed()
    return _Plan(
        streams=frozenset(streams), tables=frozenset(tables), has_constants=has_constants, root=plan
    ).fault(plan)


def refused_in_condition(selected: Any, rows: Any) -> str | None:
    """What in `selected`, a SELECT of one condition over `rows`, needs more than one row."""
    plan = selected._jdf.queryExecution().analyzed()
    below = rows._jdf.queryExecution().analyzed()
    part = _Plan(root=plan, batch=below, is_steady=False).fault(plan)
    return "a subquery" if part in (SUBQUERY, CONSTANTS) else part


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """The rules over one analyzed plan.

    `batch`: the plan of the batch's rows, if they are not views; `is_steady`: refuse expressions
    that are not deterministic.
    """

    root: Any
    streams: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    has_constants: bool = True
    batch: Any = None
    is_steady: bool = True

    def fault(self, plan: Any) -> str | None:
        """The first part that is not row by row over the batch, from the root downward."""
        if self._is_batch(plan):
            return None
        if not self._reads_batch(plan):
            return TABLE_ROWS if self._reads_table(plan) else CONSTANTS
        kind = plan.nodeName()
        if kind in ("WithCTE", "CTERelationRef"):
            return self.fault(self._inside(plan))
        wrong = self._fault_of_expressions(plan)
        if wrong:
            return wrong
        if kind == "Join":
            return self._fault_of_join(plan)
        if kind not in _ROW_NODES:
            return _word(kind)
        return next(filter(None, map(self.fault, _children(plan))), None)

    def _fault_of_join(self, join: Any) -> str | None:
        """A join may keep, repeat or leave out rows of the batch. One that also keeps unmatched
        rows of the table would produce them again in each batch."""
        left, right = _children(join)
        of_left, of_right = self._reads_batch(left), self._reads_batch(right)
        if of_left and of_right:
            return JOIN
        kind = str(join.joinType().toString())
        if kind not in _ANY_SIDE and not (kind in _LEFT if of_left else kind == _RIGHT):
            return TABLE_ROWS
        stream, table = (left, right) if of_left else (right, left)
        return self.fault(stream) or self._fault_of_table(table)

    def _fault_of_expressions(self, plan: Any) -> str | None:
        if self.is_steady:
            for each in _sequence(plan.expressions()):
                if not each.deterministic():
                    return f"{_unsteady(each)}()"
        # Spark keeps the plans of subqueries in the expressions, not among the children.
        return next(filter(None, map(self._fault_of_table, _sequence(plan.subqueries()))), None)

    def _fault_of_table(self, plan: Any) -> str | None:
        """The first part of a plan that reads more than lookup tables and constants."""
        if self._is_batch(plan):
            return SUBQUERY
        if self._is_table(plan):
            return None
        kind = plan.nodeName()
        if kind in ("WithCTE", "CTERelationRef"):
            return self._fault_of_table(self._inside(plan))
        if kind in _CONSTANT_LEAVES:
            return None if self.has_constants else CONSTANTS
        if plan.children().isEmpty():
            return CONSTANTS
        if kind not in _TABLE_NODES:
            return _word(kind)
        wrong = self._fault_of_expressions(plan)
        return wrong or next(filter(None, map(self._fault_of_table, _children(plan))), None)

    def _is_batch(self, plan: Any) -> bool:
        if self.batch is not None and plan.fastEquals(self.batch):
            return True
        return _view(plan) in self.streams

    def _is_table(self, plan: Any) -> bool:
        return _view(plan) in self.tables

    def _reads_batch(self, plan: Any) -> bool:
        """Whether rows of the batch come through a plan, by more than its subqueries."""
        if self._is_batch(plan):
            return True
        return not self._is_table(plan) and any(map(self._reads_batch, self._below(plan)))

    def _reads_table(self, plan: Any) -> bool:
        return self._is_table(plan) or any(map(self._reads_table, self._below(plan)))

    def _below(self, plan: Any) -> Iterator[Any]:
        if plan.nodeName() in ("WithCTE", "CTERelationRef"):
            return iter((self._inside(plan),))
        return _children(plan)

    def _inside(self, plan: Any) -> Any:
        """The query of a WITH, or the named part that it refers to."""
        return plan.plan() if plan.nodeName() == "WithCTE" else self._named[plan.cteId()]

    @cached_property
    def _named(self) -> Mapping[int, Any]:
        return {
            each.id(): next(_children(each))
            for each in _with_subqueries(self.root)
            if each.nodeName() == "CTERelationDef"
        }


def _word(kind: str) -> str:
    return WORDS.get(kind, f"`{kind}`")


def _view(plan: Any) -> str | None:
    """The name of a temporary view; None for all else, also for a view of a catalog."""
    if plan.nodeName() != "View" or plan.desc().identifier().database().isDefined():
        return None
    return str(plan.desc().identifier().table())


def _unsteady(expression: Any) -> str:
    """The function that makes an expression not deterministic."""
    for child in _sequence(expression.children()):
        if not child.deterministic():
            return _unsteady(child)
    return str(expression.prettyName())


def _with_subqueries(plan: Any) -> Iterator[Any]:
    yield plan
    for each in (*_children(plan), *_sequence(plan.subqueries())):
        yield from _with_subqueries(each)


def _children(plan: Any) -> Iterator[Any]:
    return _sequence(plan.children())


def _sequence(found: Any) -> Iterator[Any]:
    return (found.apply(n) for n in range(found.size()))
