"""A join of two streams is told when it does not say how long a row waits for its pair."""

from __future__ import annotations

import pytest

from pipelines.transforms.join_bounds import why_unbounded

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
