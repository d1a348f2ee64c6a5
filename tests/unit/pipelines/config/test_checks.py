"""A file's checks: their names, their nodes, and which of them can send a record."""

from __future__ import annotations

import pytest

from pipelines.config.checks import DEAD_LETTER, checks_of
from pipelines.config.section import Reader
from pipelines.model.pipeline import Action
from tests.unit.pipelines.config.sections import read, tree
from tests.unit.pipelines.config.test_validate import GOOD

DEAD = "dead_letter: { type: delta, path: /d }\n"


def checked(check: str, text: str = GOOD, name: str = "c", dead: str = DEAD):
    """(the check, its problems)."""
    whole = f"{text}{dead}checks: {{ {name}: {{ {check} }} }}\n"
    pipeline, _, _ = read(text)
    top = Reader(tree(whole), "", [])
    found = checks_of(top, pipeline)[name]
    return found, [f"{each.path}: {each.message}" for each in top.problems]


def test_a_check_has_its_node_its_condition_and_its_action():
    found, problems = checked("on: clean, expr: id > 0, action: drop, max_ratio: 0.5")

    assert problems == []
    assert (found.on, found.expr.text, found.action) == ("clean", "id > 0", Action.DROP)
    assert found.ratio_max == 0.5
    assert found.leaves_out


@pytest.mark.parametrize(
    ("name", "what"),
    [("raw", "source"), ("clean", "transform"), ("lake", "sink"), (DEAD_LETTER, "word")],
)
def test_a_check_needs_a_name_of_its_own_because_tests_name_nodes(name, what):
    _, problems = checked("on: clean, expr: id > 0, action: warn", name=name)

    assert problems == [
        f"checks.{name}: `{name}` is a {what} already: tests could not distinguish them"
    ]


def test_a_check_on_a_sink_is_refused_with_the_node_that_has_its_rows():
    _, problems = checked("on: lake, expr: id > 0, action: warn")

    assert problems == [
        "checks.c.on: no source or transform `lake`; `clean` has the rows of sink `lake`"
    ]


def test_a_check_on_an_unknown_node_is_refused_unless_that_node_could_not_be_read():
    _, problems = checked("on: claen, expr: id > 0, action: warn")
    assert problems == ["checks.c.on: no source or transform `claen`; did you mean `clean`?"]

    pipeline, _, _ = read(GOOD)
    top = Reader(tree(GOOD + "checks: { c: { on: other, expr: a, action: warn } }\n"), "", [])
    top.problem(top.table.place, "transforms.other", "wrong")
    checks_of(top, pipeline)
    assert len(top.problems) == 1


def test_a_check_that_fails_the_run_lets_no_row_pass():
    _, problems = checked("on: clean, expr: id > 0, action: fail, max_ratio: 0.5")

    assert problems == [
        "checks.c.max_ratio: with action fail no row may: take warn to let some pass"
    ]


def test_a_check_that_sends_records_needs_a_place_for_them():
    _, problems = checked("on: clean, expr: id > 0, action: dead_letter", dead="")

    assert problems == [
        "checks.c: `dead_letter`, where this check sends records, is missing at the top; "
        "expected a mapping with type, path or table"
    ]


@pytest.mark.parametrize(("action", "refused"), [("dead_letter", True), ("drop", False)])
def test_a_record_of_several_rows_is_not_sent_by_a_check(action, refused):
    text = GOOD.replace("on_error: fail", "on_error: fail, explode: true")

    _, problems = checked(f"on: clean, expr: id > 0, action: {action}", text)

    assert [each.startswith("checks.c: each record of `raw` makes") for each in problems] == (
        [True] if refused else []
    )
