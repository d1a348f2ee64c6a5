"""Regular expressions over topic names: they match as Python's own do, but are never slow."""

from __future__ import annotations

import re
import time

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
        (r"(?i)web\b.*", "WEB-1", "webs"),
        ("[[:alpha:]]+", "abc", "ab1"),
        ("a{,2}", "a{,2}", "aa"),
        (".", "ë", "ee"),
        ("id.*", "id\u2603", "di"),
    ],
)
def test_what_is_understood(expression: str, matching: str, other: str) -> None:
    pattern = Pattern(expression)

    assert pattern.matches(matching)
    assert not pattern.matches(other)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a**", "bad repetition operator: **"),
        ("*", "no argument for repetition operator: *"),
        ("(", "missing ): ("),
        ("a)", "unexpected ): a)"),
        ("web-[a", "missing ]: [a"),
        ("[z-a]", "invalid character class range: z-a"),
        ("a{3,2}", "invalid repetition size: {3,2}"),
        ("a{99999}", "invalid repetition size: {99999}"),
        ("(((a{100}){100}){100})", "invalid repetition size: {100}"),
        ("(?=a)", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("\\", "trailing \\"),
        (r"\pL{60}", "pattern too large - compile failed"),
        (r"\pL{10}", "it compiles to more than 4000 instructions"),
        ("a" * 4_001, "it is longer than 4000 characters"),
    ],
)
def test_an_invalid_expression_is_refused_with_the_part_that_is_wrong(
    expression: str, reason: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        Pattern(expression)

    assert caught.value.code is ErrorCode.invalid_regular_expression
    assert caught.value.message == (
        f"'{expression[:200]}' is not a valid regular expression of RE2: {reason}"
    )


def test_the_part_of_an_error_that_a_client_chose_is_cut() -> None:
    with pytest.raises(KafkaError) as caught:
        Pattern("(" * 3_000)

    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    "expression", ["(a*)*b|(a|a)*c|(a|aa)+d", "(x+x+)+y", "([ab]{0,60}){16}c", "(.?){400}d"]
)
def test_an_expression_made_to_backtrack_takes_time_in_proportion_to_the_name(
    expression: str,
) -> None:
    pattern = Pattern(expression)
    begin = time.process_time()

    for nth in range(100):
        assert not pattern.matches("a" * 249 + str(nth))

    # By backtracking one of them takes longer than the universe is old. Measured: 0.4 s at most.
    assert time.process_time() - begin < 10
