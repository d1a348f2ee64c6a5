"""What `lint` finds in the SQL whose changes a topic gets; more of it in `config/test_topic.py`."""

from __future__ import annotations

import pytest

from pipelines.config.gaps import Gaps
from pipelines.lint.changes import change_problems
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_topic import CHANGES, WINDOWS, WORDS

UPDATES = WINDOWS.replace(WORDS, CHANGES)


def told(text: str, gaps: Gaps = Gaps()) -> list[str]:
    return [f"{each.path}: {each.message}" for each in change_problems(read(text)[0], gaps)]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("'1m'), id", "'1m'), id having count(*) > 1", "a condition (WHERE, HAVING) would leave"),
        ("group by window", "group by session_window", "Spark gives no changes of `session_wi"),
        ("from clean group", "from clean join x on true group", "a join of two streams has no"),
    ],
)
def test_a_part_that_gives_no_change_is_found_with_its_transform(old, new, words):
    (found,) = told(UPDATES.replace(old, new))

    assert found.startswith(f"transforms.per_minute.sql: {words}")


def test_a_condition_before_the_aggregate_is_no_change_that_is_left_out():
    assert told(UPDATES.replace("from clean group", "from clean where id > 0 group")) == []
    assert told(UPDATES) == []


def test_final_results_may_be_left_out_and_joined():
    assert told(WINDOWS.replace("'1m'), id", "'1m'), id having count(*) > 1")) == []


def test_a_graph_that_was_not_read_is_one_complaint():
    wrong = UPDATES.replace("'1m'), id", "'1m'), id having count(*) > 1")

    assert told(wrong, Gaps(frozenset({"transforms"}))) == []
