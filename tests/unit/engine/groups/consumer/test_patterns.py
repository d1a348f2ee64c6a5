"""Expressions over topic names: as Python's own matcher has them, but never slow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.patterns import Pattern

ATOMS = st.sampled_from(
    ["a", "b", "-", ".", "[ab]", "[^a]", "[a-c-]", r"\.", r"\d", r"\W", "^", "$", "(?:ab)", "[]a]"]
)
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{0}", "*?", ""])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, REPEATS).map(lambda two: f"({two[0]}){two[1]}"),
    )


EXPRESSIONS = st.recursive(ATOMS, _grown, max_leaves=8)


@given(EXPRESSIONS, st.lists(st.text("ab-.1", max_size=6), min_size=3, max_size=6))
def test_a_name_matches_as_with_another_matcher(expression: str, names: list[str]) -> None:
    ours, theirs = Pattern(expression), re.compile(expression)

    for name in names:
        # Python's `$` also matches before a last newline; no name here has one.
        assert ours.matches(name) == (theirs.fullmatch(name) is not None), (expression, name)


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        ("orders", "orders", "orders2"),
        ("web-.*|app", "web-", "ap"),
        (r"\Aa\.b\z", "a.b", "axb"),
        ("(?P<kind>in|out)-[0-9]{2,3}", "out-123", "out-1"),
        ("(?<kind>in)", "in", "out"),
        (r"[\w.]+", "a_1.b", "a-b"),
        ("", "", "a"),
    ],
)
def test_what_is_understood(expression: str, matching: str, other: str) -> None:
    pattern = Pattern(expression)

    assert pattern.matches(matching)
    assert not pattern.matches(other)


@pytest.mark.parametrize(
    "expression",
    [
        "a**", "*", "(", ")", "a)", "[a", "[", "[z-a]", "a{2", "a{,2}", "a{3,2}", "a{99999}", r"\b",
        "(?=a)", "(?i)a", r"(a)\1", "\\", "[[:alpha:]]", r"[\W]", "(?P<1>a)", "a{1000}{1000}",
        "(((a{100}){100}){100})", "(" * 500 + ")" * 500,
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_its_place(expression: str) -> None:
    with pytest.raises(KafkaError, match="at character") as caught:
        Pattern(expression)
    assert caught.value.code is ErrorCode.invalid_regular_expression


def test_an_expression_made_to_backtrack_is_matched_by_few_steps() -> None:
    pattern = Pattern("(a*)*b|(a|a)*c|(a|aa)+d")

    assert not pattern.matches("a" * 249)
    assert pattern.matches("a" * 248 + "d")
    assert len(pattern._known) < 20
