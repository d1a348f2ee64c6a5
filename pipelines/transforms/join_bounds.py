"""Time bounds of a join of two streams, found with sqlglot, for `lint`.

Only certain errors are reported; `plan` and `run` ask Spark (`joins.py`).
"""

from __future__ import annotations

from collections.abc import Collection

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

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
