"""`partition_by`, `features`, `properties` and the layout of a Delta sink, as a file has them."""

from __future__ import annotations

import pytest

from pipelines.model.maintenance import Chore
from pipelines.model.pipeline import Sink
from tests.unit.pipelines.config.test_sink import sink


def wanted(found: Sink) -> dict[str, str]:
    return {wish.key: wish.value for wish in found.wishes}


def test_the_features_of_a_file_are_properties_of_the_table():
    found, problems = sink(
        "mode: append\npartition_by: [a, b]\n"
        "features: { row_tracking: true, v2_checkpoints: false, column_mapping: id }\n"
        "properties: { delta.checkpointInterval: 7, team: shop, delta.appendOnly: true }\n"
    )

    assert problems == []
    assert found.partition_by == ("a", "b")
    assert wanted(found) == {
        "delta.enableRowTracking": "true",
        "delta.checkpointPolicy": "classic",
        "delta.columnMapping.mode": "id",
        "delta.checkpointInterval": "7",
        "team": "shop",
        "delta.appendOnly": "true",
    }


def test_optimize_takes_columns_and_a_size():
    found, problems = sink(
        "mode: append\noptimize: { every: 1 batch, zorder_by: [a, b], file_size: 64MiB }"
    )

    assert problems == []
    (chore,) = found.upkeep
    assert (chore.chore, chore.zorder_by, chore.file_bytes) == (Chore.OPTIMIZE, ("a", "b"), 1 << 26)
    assert [path for _, _, path in found.layout_columns()] == ["sinks.s.optimize.zorder_by"] * 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster_by: auto", "cluster_by: to choose columns by itself is Databricks' alone"),
        ("cluster_by: [a]\npartition_by: [b]", "partition_by: Delta lays rows together by"),
        (
            "cluster_by: [a]\noptimize: { every: 1 batch, zorder_by: [a] }",
            "optimize.zorder_by: OPTIMIZE lays the rows by `cluster_by` already",
        ),
        ("features: { row_tracking: maybe }", "features.row_tracking: expected true or false"),
        ("features: { column_mapping: true }", "features.column_mapping: expected name or id"),
        ("features: { row_trackin: true }", "features.row_trackin: unknown key"),
        (
            "properties: { delta.enableRowTracking: true }",
            "properties.delta.enableRowTracking: use",
        ),
        (
            "properties: { delta.checkpointIntervall: 7 }",
            "properties.delta.checkpointIntervall: Delta for Spark has no property "
            "`delta.checkpointIntervall`, or it is not for a file; did you mean "
            "`delta.checkpointInterval`?",
        ),
        ("properties: { a: [1] }", "properties.a: expected a text, a number or a flag"),
    ],
)
def test_what_delta_has_not_is_refused_with_the_reason(text, problem):
    _, (found,) = sink(f"mode: append\n{text}")

    assert found.startswith(problem)


def test_a_column_named_auto_is_written_as_a_list():
    found, problems = sink("mode: append\ncluster_by: [auto]")

    assert (found.cluster_by, problems) == (("auto",), [])


def test_a_table_whose_rows_change_is_not_append_only():
    _, (problem,) = sink(
        "mode: upsert\nkeys: [k]\norder_by: t\nproperties: { delta.appendOnly: true }"
    )

    assert problem.startswith("properties.delta.appendOnly: mode upsert changes rows of the table")
