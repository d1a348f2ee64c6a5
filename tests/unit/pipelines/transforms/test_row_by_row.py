"""Refusals of transforms that are not row by row: what is wrong, and what to do."""

from __future__ import annotations

import pytest

from pipelines.transforms.row_by_row import (
    CONSTANTS,
    JOIN,
    SUBQUERY,
    TABLE_ROWS,
    WORDS,
    why_refused,
)


@pytest.mark.parametrize("word", [*WORDS.values(), "`MapGroups`", JOIN])
def test_a_part_that_needs_more_rows_is_named_with_the_way_out(word: str) -> None:
    message = why_refused(word)

    assert message.startswith(f"{word} needs more than one batch's rows")
    assert message.endswith(
        "(to aggregate, use a sink with mode merge, or windows with a `watermark`)"
    )


@pytest.mark.parametrize("word", [TABLE_ROWS, JOIN])
def test_a_join_that_adds_rows_names_its_tables(word: str) -> None:
    assert why_refused(word, ["t", "u"]).startswith("`t` and `u` may only add to each row")


@pytest.mark.parametrize("word", [CONSTANTS, SUBQUERY, "rand()"])
def test_a_refusal_states_what_is_expected(word: str) -> None:
    assert ": expected " in why_refused(word, ["t"])
