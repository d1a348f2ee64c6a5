"""Columns that a test of the file expects of a node, and that the node does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipelines.base.errors import Problem
from pipelines.config.checks import DEAD_LETTER
from pipelines.config.gaps import Gaps
from pipelines.config.section import nearest
from pipelines.lint.sql_columns import OPEN, SCALAR, Columns
from pipelines.model.pipeline import Pipeline

LETTERS = Columns(
    dict.fromkeys(
        (
            "source",
            "topic",
            "partition",
            "offset",
            "timestamp",
            "reason",
            "key",
            "value",
            "headers",
            "sink",
        ),
        SCALAR,
    )
)
"""The columns of dead letters."""


def expectation_problems(
    pipeline: Pipeline, made: Mapping[str, Columns], tables: Mapping[str, Columns], gaps: Gaps
) -> Iterator[Problem]:
    """A problem for each unknown column of each expectation, at its first row that names it.

    `made`: node → its columns; `tables`: sink → the columns of what it writes.
    """
    for case in pipeline.cases:
        for expected in case.expected:
            check = pipeline.checks.get(expected.node)
            name = check.on if check else expected.node
            columns = tables.get(name) or made.get(name, OPEN)
            if name == DEAD_LETTER:
                columns = LETTERS
            may_be_other = gaps.has_name(expected.node, "sinks", "transforms", "checks")
            if columns.is_open or may_be_other:
                continue
            for column, place in expected.places.items():
                if column.lower() not in columns.names:
                    has = ", ".join(f"`{each}`" for each in columns.names)
                    hint = nearest(column.lower(), columns.names) or f"; it has {has}"
                    message = f"no column `{column}` in `{expected.node}`{hint}"
                    yield Problem(
                        place=place, path=f"{expected.path}.rows", message=message, stops_run=False
                    )
