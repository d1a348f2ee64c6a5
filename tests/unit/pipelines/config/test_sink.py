"""One sink of a file: what its mode needs, takes and refuses."""

from __future__ import annotations

import pytest

from pipelines.config.sink import CLUSTERING_MAX, sink_of
from pipelines.model.maintenance import BUDGET_MS, Chore, Upkeep
from pipelines.model.pipeline import Mode, Sink, Unavailable
from tests.unit.pipelines.config.sections import said, section

TABLE = "type: delta\ninputs: [a]\npath: /t\n"


def sink(text: str, of: str = TABLE) -> tuple[Sink, list[str]]:
    reader = section(of + text, "sink")
    return sink_of("s", reader), said(reader)


def test_a_merge_adds_each_column_by_its_function():
    found, problems = sink(
        "mode: merge\nkeys: [k]\naggregate: { n: count(*), m: MAX(x), t: 'sum( `a b` )' }"
    )

    assert problems == []
    assert (found.mode, found.keys) == (Mode.MERGE, ("k",))
    assert [(a.column, a.function, a.argument) for a in found.aggregates] == [
        ("n", "count", None), ("m", "max", "x"), ("t", "sum", "a b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("avg(x)", ": averages cannot be added up, keep a sum and a count"),
        ("sun(x)", "; did you mean `sum(x)`?"),
        ("sum(*)", ""),
        ("sum(a b)", "; did you mean `sum(`a b`)`, a name in backticks?"),
        ("x", ""),
    ],
)
def test_another_aggregate_is_refused_with_what_may_be_meant(call, hint):
    _, problems = sink(f"mode: merge\nkeys: [k]\naggregate: {{ n: '{call}' }}")

    assert problems == [
        f"aggregate.n: expected count(*), count(x), sum(x), min(x) or max(x); found `{call}`{hint}"
    ]


def test_a_key_is_not_an_aggregate_and_there_is_one_at_least():
    _, of_key = sink("mode: merge\nkeys: [k]\naggregate: { k: count(*) }")
    _, of_none = sink("mode: merge\nkeys: [k]\naggregate: {}")

    assert of_key == ["aggregate.k: `k` is a key already"]
    assert of_none == ["aggregate: expected at least one column"]


def test_a_merge_takes_no_new_columns_because_earlier_rows_are_folded_already():
    _, (problem,) = sink(
        "mode: merge\nkeys: [k]\naggregate: { n: count(*) }\nschema_evolution: add"
    )

    assert problem.startswith("schema_evolution: an aggregate that comes later would miss")


def test_the_latest_row_of_a_key_is_by_the_order_and_not_by_the_key():
    found, problems = sink("mode: upsert\nkeys: [k]\norder_by: [at, k]")

    assert found.latest is not None
    assert found.latest.columns == ("at", "k")
    assert problems == ["order_by: `k` is a key: it does not order the rows of one"]


@pytest.mark.parametrize(
    ("mode", "words", "marks"),
    [
        ("upsert", "", False),
        ("upsert", "\ndelete_when: d\non_delete: mark", True),
        ("upsert", "\ndelete_when: d\non_delete: remove", False),
        ("scd2", "\ndelete_when: d", True),
    ],
)
def test_a_deleted_key_is_marked_on_request_and_in_a_history_always(mode, words, marks):
    found, problems = sink(f"mode: {mode}\nkeys: [k]\norder_by: at{words}")

    assert problems == []
    assert found.latest is not None
    assert found.latest.marks is marks
    assert found.latest.unavailable is Unavailable.KEEP


def test_what_a_deletion_does_needs_the_rows_that_delete():
    _, problems = sink("mode: upsert\nkeys: [k]\norder_by: at\non_delete: mark")

    assert problems == ["on_delete: `delete_when` is missing, which selects the deleting rows"]


@pytest.mark.parametrize(("word", "other"), [("time: at", "within"), ("within: 1h", "time")])
def test_the_time_of_copies_and_their_distance_are_there_together(word, other):
    _, problems = sink(f"mode: append\ndeduplicate: {{ keys: [k], {word} }}")

    assert problems == [
        f"deduplicate.{word.partition(':')[0]}: `{other}` is missing: both are there or neither"
    ]


def test_rows_lie_together_by_as_many_columns_as_delta_takes():
    columns = [f"c{number}" for number in range(CLUSTERING_MAX)]
    found, problems = sink(f"mode: append\ncluster_by: [{', '.join(columns)}]")
    _, (problem,) = sink(f"mode: append\ncluster_by: [{', '.join(columns)}, more]")

    assert (found.cluster_by, problems) == (tuple(columns), [])
    assert problem.endswith("by 4 columns at most; here are 5")


def test_upkeep_has_a_number_of_batches_and_a_budget():
    found, problems = sink(
        "mode: append\noptimize: { every: 5 batches }\n"
        "vacuum: { every: 9 batches, keep: 168h, within: 1s }"
    )

    assert problems == []
    assert found.upkeep == (
        Upkeep(chore=Chore.OPTIMIZE, every=5, within_ms=BUDGET_MS, keep_ms=None),
        Upkeep(chore=Chore.VACUUM, every=9, within_ms=1_000, keep_ms=168 * 3_600_000),
    )


def test_files_that_a_reader_may_use_are_kept_for_a_week():
    _, (problem,) = sink("mode: append\nvacuum: { every: 9 batches, keep: 167h }")

    assert problem.startswith("vacuum.keep: expected 168h at least")


def test_a_constraint_has_a_name_and_a_condition():
    found, problems = sink("mode: append\nconstraints: { Big: a > 0, n: 5, ok: ' b > 0 ' }")

    assert {name: each.text for name, each in found.constraints.items()} == {
        "Big": "a > 0", "ok": "b > 0",
    }  # fmt: skip
    assert problems == [
        "constraints.Big: `Big` is not a name: expected a-z, 0-9 and _",
        "constraints.n: expected a condition such as amount > 0; found `5`",
    ]


def test_a_sink_has_one_input_and_a_table_has_each_row_once():
    _, problems = sink(
        "mode: append\ndelivery: at_least_once", "type: delta\ninputs: [a, b]\npath: /t\n"
    )

    assert problems == [
        "inputs: a sink has one input: join several with UNION in a transform",
        "delivery: a table has each row once: expected exactly_once, or no `delivery`",
    ]


def test_a_table_needs_a_mode_and_a_topic_does_not():
    _, of_table = sink("")
    of_topic, problems = sink("", "type: josefine\ninputs: [a]\ntopic: t\n")

    assert of_table == [
        ": `mode` is missing; expected append, merge, upsert or scd2; of a topic append or update"
    ]
    assert (of_topic.type, problems) == ("josefine", [])
    assert of_topic.topic is not None
