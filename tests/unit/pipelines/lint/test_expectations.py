"""Columns that an expected row names must be columns of its node."""

from __future__ import annotations

import pytest

from pipelines.lint.expectations import LETTERS
from pipelines.lint.lint import lint_text
from pipelines.transforms.checks import RECORD
from tests.unit.pipelines.config.bad_sinks import MERGE, SINK, UPSERT
from tests.unit.pipelines.config.test_validate import GOOD

SCD2 = UPSERT.replace("upsert", "scd2")
TOPIC = "  lake: { type: josefine, inputs: [clean], topic: t, key: id }\n"
CHECK = "checks: { low: { on: clean, expr: id < 5, action: warn } }\n"


def told(sink, expected, *, sql="select value.* from raw"):
    text = GOOD.replace(SINK, sink).replace("select value.* from raw", sql) + CHECK
    text += f"tests:\n  - name: t\n    given: {{}}\n    expect: {{ {expected} }}\n"
    problems = lint_text(text, "f.yaml", {}).problems
    return [f"{each.place.column}: {each.path}: {each.message}" for each in problems]


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (SINK, "clean: { rows: [{ id: 1 }, { ID: 2 }] }"),
        (SINK, "lake: { rows: [{ id: 1 }] }"),
        (SINK, "low: { rows: [{ id: 1 }] }"),
        (SINK, "dead_letter: { rows: [{ source: raw, reason: x, key: k, headers: [] }] }"),
        (MERGE, "lake: { rows: [{ id: 1, n: 1, top: 2 }] }"),
        (TOPIC, "lake: { rows: [{ key: 1, value: {} }] }"),
    ],
)
def test_a_column_of_the_node_is_good(sink, expected):
    assert told(sink, expected) == []


@pytest.mark.parametrize(
    ("sink", "expected", "problem"),
    [
        (SINK, "clean: { rows: [{ id: 1 }, { i: 2 }, { i: 3 }] }",
         "44: tests[0].expect.clean.rows: no column `i` in `clean`; did you mean `id`?"),
        (SINK, "lake: { rows: [{ topic: t }] }",
         "32: tests[0].expect.lake.rows: no column `topic` in `lake`; it has `id`"),
        (SINK, "low: { rows: [{ idd: 1 }] }",
         "31: tests[0].expect.low.rows: no column `idd` in `low`; did you mean `id`?"),
        (SINK, "dead_letter: { rows: [{ raeson: x }] }",
         "39: tests[0].expect.dead_letter.rows: no column `raeson` in `dead_letter`; did you mean "
         "`reason`?"),
        (TOPIC, "lake: { rows: [{ id: 1 }] }",
         "32: tests[0].expect.lake.rows: no column `id` in `lake`; it has `key`, `value`"),
    ],
)  # fmt: skip
def test_another_column_is_reported_once_at_its_first_row(sink, expected, problem):
    assert told(sink, expected) == [problem]


def test_nothing_is_reported_of_a_node_whose_columns_are_not_certain():
    open_sql = "select value.id + 1 from raw"

    assert told(SINK, "clean: { rows: [{ other: 1 }] }", sql=open_sql) == []


def test_dead_letters_name_their_record():
    assert {*RECORD} < {*LETTERS.names}
