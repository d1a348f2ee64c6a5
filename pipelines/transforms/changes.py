"""Rules of `mode: update`: the changes of a stateful result, each under its group's key.

A change replaces the last record of its key. A condition after the aggregate (HAVING, WHERE) would
leave out a change and keep the record before it, which is wrong from then on: such a row has to be
a tombstone. `lint/changes.py` finds the same without Spark.
"""

from __future__ import annotations

from typing import Any

SESSIONS = (
    "Spark gives no changes of `session_window` (mode update), because sessions merge: expected "
    "`mode: append`, which has each session once, when it is closed"
)
JOINS = (
    "a join of two streams has no changes: its rows are final when they are made; expected `mode: "
    "append`"
)
_INSTEAD = (
    "would leave a change out, and the record before it would stay the last one of its key: "
    "expected all rows, and `tombstone_when` in the sink for those that remove their key"
)
_BELOW = frozenset({"Project", "SubqueryAlias", "View", "EventTimeWatermark", "ResolvedHint"})
"""Operators that give one row for each row."""
_WORDS = {"Filter": "a condition (WHERE, HAVING)", "Generate": "`explode` or LATERAL VIEW"}


def why_left_out(made: Any) -> str:
    """Why a frame after the state does not have each change once; "" if it does."""
    return _left_out(made._jdf.queryExecution().analyzed())


def why_no_changes(made: Any) -> str:
    """Why Spark gives no changes of a stateful frame, or not each of them; "" if it does."""
    node = made._jdf.queryExecution().analyzed()
    while node.nodeName() != "Aggregate":
        if node.nodeName() == "Join":
            return JOINS
        if node.nodeName() not in _BELOW:
            return why_wrong(node.nodeName())
        node = node.children().apply(0)
    # Spark's analysis gives the column of a session this name.
    return SESSIONS if "session_window" in node.groupingExpressions().toString() else ""


def _left_out(plan: Any) -> str:
    """Follow the changes from the root down to the frame of the micro-batch."""
    node = plan
    while node.children().size():
        name = node.nodeName()
        if name == "Join":
            sides = {"LeftOuter": 0, "RightOuter": 1}
            kind = node.joinType().toString()
            if kind not in sides:
                return why_wrong(f"{kind} join")
            node = node.children().apply(sides[kind])
        elif name in _BELOW:
            node = node.children().apply(0)
        else:
            return why_wrong(name)
    return ""


def why_wrong(operator: str) -> str:
    """The error of an operator after the aggregate."""
    return f"{_WORDS.get(operator, f'`{operator}`')} {_INSTEAD}"
