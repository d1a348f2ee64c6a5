"""Constraints of a sink's table: what is due, what a failed write says, what a file may say."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ConfigError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.lint.lint import lint_file
from pipelines.model.constraints import broken, due, rows_against
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD

HAVE = {"delta.constraints.positive": "amount  >\n0", "delta.appendOnly": "true"}
SINK = "path: /lake,"


def text(said):
    assert SINK in GOOD
    return GOOD.replace(SINK, f"{SINK} constraints: {said},")


def constraints(said):
    return next(iter(validate(load(text(said), "f.yaml", {})).sinks.values())).constraints


def test_a_constraint_that_is_there_is_not_due_however_it_is_spaced():
    assert due(HAVE, {"positive": "amount > 0"}) == ()
    assert due(HAVE, {"other": "amount > 0"}) == (("other", "amount > 0"),)
    assert due({}, {}) == ()


def test_another_one_of_a_name_is_told_with_both_and_the_ways_out():
    assert due(HAVE, {"positive": "amount > 1"}) == (
        "has a constraint `positive` already, and it is another one: amount > 0, the file has "
        "amount > 1. Give it another name, or drop the table's (ALTER TABLE ... DROP CONSTRAINT "
        "positive)"
    )


def test_a_failed_write_names_its_constraint_and_no_value():
    check = (
        "Job aborted due to stage failure: ... DeltaInvariantViolationException: "
        "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint positive (amount > 0) violated by "
        "row with values:\n - amount : -17"
    )
    null = (
        "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: by.name.\n"
        "\tat org"
    )

    assert broken(check) == "constraint `positive` (amount > 0)"
    assert broken(null) == "NOT NULL of column `by.name`"
    assert broken("exceeds char/varchar type length limitation. Failed check: x") is not None
    assert broken("an executor was lost") is None


def test_a_failed_write_names_the_generated_column_and_its_expression():
    said = (
        "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint Generated Column "
        "(day <=> CAST(at AS DATE)) violated by row with values:\n - at : 5"
    )

    assert broken(said) == (
        "generated column `day`: its value is not what the table computes, "
        "(day <=> CAST(at AS DATE))"
    )
    assert broken(said.replace("Generated Column", "Generated")) == (
        "constraint `Generated` (day <=> CAST(at AS DATE))"
    )


def test_rows_against_a_new_constraint_are_counted():
    said = "[X] 3 rows in delta.`/t` violate the new CHECK constraint (amount > 0)"

    assert rows_against(said) == 3
    assert rows_against("cannot resolve `amont`") is None


def test_a_file_says_conditions_by_name():
    said = "{ has_an_id: id is not null, small: id < 100 }"

    found = constraints(said)

    assert {name: each.text for name, each in found.items()} == {
        "has_an_id": "id is not null",
        "small": "id < 100",
    }
    assert complaints(text(said)) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("id > 0", "expected a mapping of name: condition over the table's columns"),
        ("{ positive: 3 }", "expected a condition such as amount > 0; found `3`"),
        ("{ Positive: id > 3 }", "`Positive` is not a name"),
    ],
)
def test_what_is_no_constraint_is_told_with_its_place(said, expected):
    with pytest.raises(ConfigError) as caught:
        constraints(said)

    assert expected in str(caught.value)
    assert str(caught.value).startswith("f.yaml:")


def test_lint_sees_columns_that_the_table_has_not(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(text("{ positive: idd > 0 }"))

    problems = lint_file(file, {}).problems

    assert [each.message for each in problems] == ["no column `idd`; did you mean `id`?"]
