"""What Spark complains of is one sentence here, with its suggestion."""

from __future__ import annotations

import pytest

from pipelines.base.errors import Place
from pipelines.spark.errors import in_short, refusal


@pytest.mark.parametrize(
    ("told", "short"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved. Did "
            "you mean one of the following? [`y`]. SQLSTATE: 42703; line 1 pos 7",
            "A column with name `x` cannot be resolved. Did you mean one of the following? [`y`]",
        ),
        (
            "[PARSE_SYNTAX_ERROR] Syntax error at 'x'. SQLSTATE: 42601\n\n== SQL\nx",
            "Syntax error at 'x'",
        ),
        ("No stack.\nJVM stacktrace:\nat a.b", "No stack"),
    ],
)
def test_codes_pages_and_stacks_are_left_out(told, short):
    assert in_short(told) == short


def test_a_table_that_is_not_there_is_told_with_those_that_are():
    told = "[TABLE_OR_VIEW_NOT_FOUND] The table or view `z` cannot be found. Verify the spelling"

    assert in_short(told, ("a", "b")) == "no table `z`; there are `a`, `b`"
    assert in_short(told, ("a",)) == "no table `z`; there is `a`"


def test_a_refusal_names_the_line():
    error = refusal(Place(file="f.yaml", line=3, column=5), "sinks.lake", "no column")

    assert str(error) == "f.yaml:3:5: sinks.lake: no column"
