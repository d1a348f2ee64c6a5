"""The compiled plan says of each sink and source what the file's graph decides, once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.model.lineage import lineage
from pipelines.model.plan import compile_plan
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.exactly_once.test_watermarks import JOINED, WINDOWS

PIPELINES = Path(__file__).resolve().parents[4] / "pipelines"
READ_A_FILE = {
    "config/change_positions.py", "config/checks.py", "config/lookup.py", "config/topic.py",
    "config/on_error.py", "config/table_family.py", "config/table_stream.py",
    "config/unavailable.py", "config/validate.py", "config/watermark.py",
    "inspect/graph.py", "inspect/sdp.py", "lint/changes.py", "lint/lint.py", "lint/warnings.py",
}  # fmt: skip
"""Modules that check, draw or export a file: it may still be wrong, so there is no plan of it."""

DEAD = "dead_letter: { type: delta, path: /dead }\n"
CHECKS = (
    "checks:\n"
    "  early: { on: raw, expr: offset > 1, action: dead_letter }\n"
    "  late: { on: clean, expr: id > 1, action: fail }\n"
    "  idle: { on: unused, expr: id > 1, action: dead_letter }\n"
)
UNUSED = "transforms:\n  unused: { inputs: [raw], sql: select value.* from raw }\n"


def plan_of(text):
    return compile_plan(validate(load(text, "f.yaml", {})))


def checked():
    two = GOOD.replace(SINK, SINK + SINK.replace("lake", "pond"))
    two = two.replace("transforms:\n", UNUSED).replace("trigger:", f"{DEAD}{CHECKS}trigger:")
    return plan_of(two)


def names(found):
    return [each.name for each in found]


def test_a_sink_has_its_sources_and_its_transforms_in_the_order_to_build_them():
    plan = plan_of(JOINED)
    sink = plan.sinks["lake"]

    sources, transforms = lineage(plan.pipeline, sink.sink.input)
    assert names(sink.sources) == list(sources) == ["raw", "paid"]
    assert names(sink.transforms) == list(transforms)
    assert sink.source is sink.sources[0]
    assert sink.stateful is sink.transforms[-1] or sink.stateful in sink.transforms
    built = {*sources}
    for each in map(plan.pipeline.transforms.get, sink.build.transforms):
        assert {*each.inputs} - plan.pipeline.lookups.keys() <= built
        built.add(each.name)


def test_a_state_is_known_of_the_sinks_behind_it_alone():
    assert plan_of(WINDOWS).sinks["lake"].stateful.name == "per_minute"
    assert plan_of(GOOD).sinks["lake"].stateful is None


def test_the_first_sink_of_a_source_answers_for_its_dead_letters_and_their_checks():
    plan = checked()
    lake, pond = plan.sinks.values()

    assert plan.sources["raw"].sinks == ("lake", "pond")
    assert (names(lake.leads), names(pond.leads)) == (["raw"], [])
    assert [each.source.name for each in pond.lettered] == ["raw"]
    assert names(lake.checks) == names(pond.checks) == ["early", "late"]
    assert lake.letter_nodes == ("raw",)


def test_a_check_on_a_node_that_no_sink_uses_sends_no_dead_letters():
    assert names(checked().sources["raw"].sending) == ["early"]


def test_a_sink_builds_the_nodes_of_its_rows_its_checks_and_its_dead_letters():
    plan = checked()

    assert plan.sinks["lake"].nodes == ("clean", "raw")
    assert plan.sinks["lake"].build.transforms == ("clean",)
    assert names(plan.checks_on["clean"]) == ["late"]


@pytest.mark.parametrize(("word", "group"), [("", "orders.lake"), ("commit_group: g1", "g1")])
def test_a_group_is_named_by_the_file_or_after_pipeline_and_sink(word, group):
    plan = plan_of(GOOD.replace("topics: [orders]", f"topics: [orders]\n    {word}"))

    assert plan.sinks["lake"].groups == {"raw": group}


def test_only_who_reads_a_file_asks_for_its_graph():
    """What runs, and what looks at a run, has the compiled plan."""
    asking = set()
    for path in PIPELINES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "pipelines.model.lineage":
                asking.add(path.relative_to(PIPELINES).as_posix())

    assert asking == READ_A_FILE | {"model/plan.py", "model/table_order.py"}
