"""A join of two streams is told when it does not say how long a row waits for its pair."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.transforms.join_bounds import nodes_in, why_unbounded

JOIN = "select * from a join b on a.id = b.id"


@pytest.mark.parametrize(
    "condition",
    [
        "b.at between a.at and a.at + interval 1 hour",
        "b.at >= a.at and b.at <= a.at + interval 1 hour",
        "a.at = b.at",
        "B.AT > A.AT and b.at < a.at + interval 1 hour",
    ],
)
def test_both_bounds_are_enough(condition):
    assert why_unbounded(f"{JOIN} and {condition}", {"at"}) == ""


@pytest.mark.parametrize("condition", ["b.at >= a.at", "b.at > '2020-01-01'", "a.v = b.v"])
def test_one_bound_is_not(condition):
    assert "expected both bounds" in why_unbounded(f"{JOIN} and {condition}", {"at"})


@pytest.mark.parametrize("sql", ["select * from a", "select from where ("])
def test_what_is_no_join_or_no_sql_is_for_others_to_judge(sql):
    assert why_unbounded(sql, {"at"}) == ""


def test_the_nodes_of_a_plan_come_after_those_above_them():
    def node(name, *below):
        children = SimpleNamespace(size=lambda: len(below), apply=lambda at: below[at])
        return SimpleNamespace(name=name, children=lambda: children)

    plan = node("a", node("b", node("c")), node("d"))

    assert [each.name for each in nodes_in(plan)] == ["a", "b", "c", "d"]
