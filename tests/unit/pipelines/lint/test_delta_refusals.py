"""Columns that Delta refuses are reported without Spark, at the keyword that uses them."""

from __future__ import annotations

import pytest

from pipelines.lint.delta_refusals import REFUSED
from pipelines.lint.lint import lint_text
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.test_validate import GOOD

TYPES = {
    "MAP": "MAP<STRING, INT>", "ARRAY": "ARRAY<INT>", "STRUCT": "STRUCT<a: INT>",
    "INTERVAL": "INTERVAL DAY",
}  # fmt: skip


def told(kind, sink, *, sql="select value.*, topic from raw", conf=""):
    text = GOOD.replace('"id INT"', f'"id INT, k {kind}"').replace(
        "select value.* from raw", f'"{sql}"'
    )
    text = text.replace(SINK, f"  lake: {{ type: delta, inputs: [clean], path: /lake, {sink} }}\n")
    text = text.replace("checkpoint: /ck", f"checkpoint: /ck{conf}")
    return [f"{each.path}: {each.message}" for each in lint_text(text, "f.yaml", {}).problems]


@pytest.mark.parametrize("kind", REFUSED["clustered"])
def test_a_column_to_cluster_by_has_statistics(kind):
    told_of = told(TYPES.get(kind, kind), "mode: append, cluster_by: [k]")

    assert told_of == [f"sinks.lake.cluster_by: column `k`: {REFUSED['clustered'][kind]}"]


@pytest.mark.parametrize("kind", REFUSED["compared"])
@pytest.mark.parametrize(
    ("sink", "path"),
    [
        ("mode: upsert, keys: [k], order_by: id", "keys"),
        ("mode: upsert, keys: [id], order_by: k", "order_by"),
        ("mode: scd2, keys: [k], order_by: id", "keys"),
        ("mode: merge, keys: [k], aggregate: { n: count(*) }", "keys"),
        ("mode: merge, keys: [id], aggregate: { top: max(k) }", "aggregate.top"),
        ("mode: append, deduplicate: { keys: [k] }", "deduplicate.keys"),
    ],
)
def test_keys_and_order_can_be_compared(kind, sink, path):
    assert told(TYPES.get(kind, kind), sink) == [
        f"sinks.lake.{path}: column `k`: {REFUSED['compared'][kind]}"
    ]


@pytest.mark.parametrize("kind", REFUSED["stored"])
def test_a_column_has_a_type_that_delta_stores(kind):
    sql = f"select cast(null as {TYPES.get(kind, kind)}) as k from raw"

    assert told("INT", "mode: append", sql=sql) == [
        f"sinks.lake.inputs: column `k`: {REFUSED['stored'][kind]}"
    ]


def test_only_the_first_columns_have_statistics():
    columns = ", ".join(f"value.id as c{n}" for n in range(33))
    more = ", conf: { spark.databricks.delta.properties.defaults.dataSkippingNumIndexedCols: 40 }"

    last, before, with_more = (
        told(
            "INT", f"mode: append, cluster_by: {name}", sql=f"select {columns} from raw", conf=conf
        )
        for name, conf in (("c32", ""), ("c31", ""), ("c32", more))
    )

    assert (before, with_more) == ([], [])
    assert last == [
        "sinks.lake.cluster_by: Delta has statistics of the first 32 columns only; `c32` is number "
        "33: select it earlier"
    ]


@pytest.mark.parametrize(
    "sink",
    ["mode: append, cluster_by: [k, topic]", "mode: upsert, keys: [k], order_by: id",
     "mode: merge, keys: [k], cluster_by: k, aggregate: { top: max(id), n: count(*) }"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["CHAR(3)", "DATE", "TIMESTAMP_NTZ", "DECIMAL(10,2)", "DOUBLE"])
def test_other_columns_are_good(kind, sink):
    assert told(kind, sink) == []


def test_a_condition_as_a_column_is_boolean():
    sql = "select value.id, value.id > 5 as k from raw"

    assert told("INT", "mode: append, cluster_by: k", sql=sql) == [
        f"sinks.lake.cluster_by: column `k`: {REFUSED['clustered']['BOOLEAN']}"
    ]
