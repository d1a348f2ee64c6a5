"""Which of Spark's plans give each change of a result once. The plans are trees of names here;
`tests/spark/pipelines/test_window_topics.py` has those of Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.transforms.changes import JOINS, SESSIONS, why_left_out, why_no_changes


def node(name: str, *below: Any, join: str = "", by: str = "") -> Any:
    children = SimpleNamespace(size=lambda: len(below), apply=lambda at: below[at])
    return SimpleNamespace(
        nodeName=lambda: name,
        children=lambda: children,
        joinType=lambda: SimpleNamespace(toString=lambda: join),
        groupingExpressions=lambda: SimpleNamespace(toString=lambda: by),
    )


def frame(plan: Any) -> Any:
    execution = SimpleNamespace(analyzed=lambda: plan)
    return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))


ROWS = node("LogicalRDD")
TABLE = node("Filter", node("Relation"))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (node("Project", node("SubqueryAlias", ROWS)), ""),
        (node("Join", ROWS, TABLE, join="LeftOuter"), ""),
        (node("Join", TABLE, ROWS, join="RightOuter"), ""),
        (node("Project", node("Filter", ROWS)), "a condition (WHERE, HAVING) would leave a change"),
        (node("Generate", ROWS), "`explode` or LATERAL VIEW would leave"),
        (node("Join", ROWS, TABLE, join="Inner"), "`Inner join` would leave a change out"),
        (node("Sample", ROWS), "`Sample` would leave a change out"),
    ],
)
def test_after_the_state_each_change_is_one_row(plan: Any, words: str) -> None:
    found = why_left_out(frame(plan))

    assert found.startswith(words)
    assert bool(found) is bool(words)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (node("Project", node("Aggregate", node("Filter", ROWS))), ""),
        (node("Filter", node("Aggregate", ROWS)), "a condition (WHERE, HAVING) would leave"),
        (node("Aggregate", ROWS, by="Buffer(session_window#7, k#3)"), SESSIONS),
        (node("Project", node("Join", ROWS, ROWS, join="Inner")), JOINS),
    ],
)
def test_the_changes_of_an_aggregate_are_its_rows(plan: Any, words: str) -> None:
    found = why_no_changes(frame(plan))

    assert found.startswith(words)
    assert bool(found) is bool(words)
