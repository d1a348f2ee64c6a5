"""What an edit of a file changes: results that do not depend on it are kept."""

from __future__ import annotations

import pytest

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.inspect.dependencies import dependencies_of, dependencies_of_rows, form_of
from pipelines.model.plan import PipelinePlan, compile_plan

FILE = """\
version: 1
name: two
spark: { checkpoint: /ck }
sources:
  raw: { type: josefine, bootstrap: "a:1", topics: [t], decode: { value: { format: string,
    on_error: fail } } }
transforms:
  one: { inputs: [raw], sql: select value as v from raw }
  two: { inputs: [one], sql: "select v, 2 as n from one" }
checks:
  some: { on: one, expr: v <> '', action: drop }
sinks:
  lake: { type: delta, inputs: [two], path: /lake, mode: append }
  raw: { type: delta, inputs: [one], path: /raw, mode: append }
trigger: { available_now: true }
"""
NODES = ("raw", "one", "two")


def plan_of(text: str) -> PipelinePlan:
    return compile_plan(validate(load(text, "f.yaml", {})))


def changed_by(before: str, after: str) -> list[str]:
    assert before in FILE
    old, new = plan_of(FILE), plan_of(FILE.replace(before, after))
    return [n for n in NODES if dependencies_of_rows(old, n) != dependencies_of_rows(new, n)]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("2 as n", "3 as n", ["two"]),
        ("value as v from raw", "upper(value) as v from raw", ["one", "two"]),
        ("v <> ''", "v <> 'x'", ["one", "two"]),
        ("topics: [t]", "topics: [u]", ["raw", "one", "two"]),
        ("path: /lake", "path: /pond", []),
        ("sources:\n", "# a line that moves all others\nsources:\n", []),
    ],
)
def test_an_edit_changes_a_node_and_what_is_made_of_it(
    before: str, after: str, changed: list[str]
) -> None:
    assert changed_by(before, after) == changed


def test_a_sinks_expectation_depends_on_the_sink_and_dead_letters_on_all() -> None:
    old, new = plan_of(FILE), plan_of(FILE.replace("path: /lake, mode: append",
                                                   "path: /lake, mode: append, deduplicate:"
                                                   " { keys: [v] }"))  # fmt: skip

    assert dependencies_of(old, "lake") != dependencies_of(new, "lake")
    assert dependencies_of(old, "raw") == dependencies_of(new, "raw")
    assert dependencies_of(old, "dead_letter") != dependencies_of(new, "dead_letter")


def test_values_that_python_takes_for_equal_are_not() -> None:
    assert len({form_of(each) for each in (1, 1.0, True)}) == 3
