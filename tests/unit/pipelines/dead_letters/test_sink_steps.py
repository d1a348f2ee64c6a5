"""What may fail for a record: each step of a sink, in the order in which a batch computes them."""

from __future__ import annotations

import pytest

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.dead_letters.sink_steps import SinkSteps
from pipelines.model.plan import compile_plan
from pipelines.sinks.targets import target_of

FILE = """\
version: 1
name: lab
spark: { checkpoint: /ck }
sources:
  ev:
    type: josefine
    bootstrap: h:1
    topics: [t]
    decode: { value: { format: json, schema: "id BIGINT, n STRING" } }
transforms:
  rows: { inputs: [ev], sql: "select value.id, int(value.n) n, topic, partition, offset from ev" }
  others: { inputs: [ev], sql: "select int(value.n) as m, topic, partition, offset from ev" }
checks:
  mine: { on: rows, expr: n > 0, action: drop }
  theirs: { on: others, expr: m > 0, action: dead_letter }
sinks:
  out: { type: delta, inputs: [rows], path: /t, mode: append, on_error: dead_letter }
  sums: { type: delta, inputs: [rows], path: /s, mode: merge, keys: [id], aggregate: { n: sum(n) } }
  more: { type: delta, inputs: [others], path: /m, mode: append }
dead_letter: { type: delta, path: /dead }
trigger: { available_now: true }
"""
PLAN = compile_plan(validate(load(FILE, "f.yaml", {})))


class CastError(Exception):
    """As Spark's: it names the SQL and where that is in its text."""

    def __init__(self, fragment: str, at: int) -> None:
        self.texts = (fragment, at)

    def getQueryContext(self) -> list[CastError]:  # noqa: N802
        return [self]

    def fragment(self) -> str:
        return self.texts[0]

    def startIndex(self) -> int:  # noqa: N802
        return self.texts[1]


def steps_of(sink: str) -> SinkSteps:
    plan = PLAN.sinks[sink]
    return SinkSteps(PLAN, plan, target_of(plan.sink))


@pytest.mark.parametrize(("sink", "last"), [("out", "store"), ("sums", "merge")])
def test_the_rows_come_first_and_the_table_last(sink: str, last: str) -> None:
    steps = steps_of(sink).own()

    assert [each.stage.value for each in steps] == ["transform", "check", last]
    assert [each.combines for each in steps] == [False, False, True]


def test_a_check_of_another_sinks_rows_is_a_step_of_the_dead_letters_alone() -> None:
    steps = steps_of("out")

    assert "theirs" not in {each.check for each in steps.own()}
    assert [each.check for each in steps.of_letters()] == ["theirs"] * len(
        PLAN.sinks["out"].lettered
    )


@pytest.mark.parametrize(
    ("fragment", "at", "place", "text"),
    [
        ("int(value.n)", 17, "f.yaml:11:48", "transforms.rows.sql: `int(value.n)`"),
        ("n > 0", 0, "f.yaml:14:27", "checks.mine.expr: `n > 0`"),
        ("int(value.n)", 3, None, None),
    ],
)
def test_an_expression_is_named_with_its_place_in_the_file(
    fragment: str, at: int, place: str | None, text: str | None
) -> None:
    named = steps_of("out").named(CastError(fragment, at))

    assert (named and named.place, named and named.text) == (place, text)
