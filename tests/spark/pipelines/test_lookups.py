"""A stream that is joined with a table: each batch meets the table as it is then."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.base.errors import ConfigError, RunError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.plan import plan
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

LEFT = "select o.value.id, c.name from orders o left join customers c on o.value.id = c.id"
PIPELINE = """\
version: 1
name: joined
spark: { checkpoint: "${LAB}/ck" }
sources:
  orders:
    type: memory
    records: [ %s ]
    decode: { value: { format: json, schema: "id INT" } }
  customers: { type: delta, path: "${LAB}/customers", schema: "id INT, name STRING" }
transforms:
  named: { inputs: [orders, customers], sql: "%s" }
sinks:
  named: { type: delta, inputs: [named], path: "${LAB}/named", mode: append }
trigger: { available_now: true }
tests:
  - name: without a table
    given:
      orders: [ { value: { id: 1 } }, { value: { id: 2 } } ]
      customers: [ { id: 1, name: a } ]
    expect: { named: { rows: [ { id: 1, name: a }, { id: 2 } ] } }
"""


def file_of(lab: Path, ids: list[int], sql: str = LEFT) -> Path:
    records = ", ".join(f"{{ value: {{ id: {n} }} }}" for n in ids)
    file = lab / "joined.yaml"
    file.write_text(PIPELINE % (records, sql))
    return file


def named_rows(spark: SparkSession, lab: Path, ids: list[int]) -> list[tuple[int, str]]:
    """All rows of the table then; without a name: -."""
    pipeline = read_pipeline(file_of(lab, ids), {"LAB": str(lab)})
    run_pipeline(spark, pipeline, Quiet())
    rows = spark.read.format("delta").load(f"{lab}/named").collect()
    return sorted((row["id"], row["name"] or "-") for row in rows)


def test_each_batch_is_joined_with_the_newest_version_and_what_is_written_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=r"source `customers`: .*/customers cannot be read"):
        named_rows(spark, tmp_path, [1, 2])
    table = spark.createDataFrame([(1, "a", 0), (3, "c", 0)], "ID INT, name STRING, other INT")
    table.write.format("delta").save(f"{tmp_path}/customers")

    assert named_rows(spark, tmp_path, [1, 2]) == [(1, "a"), (2, "-")]
    more = spark.createDataFrame([(2, "b", 0)], "ID INT, name STRING, other INT")
    more.write.format("delta").mode("append").save(f"{tmp_path}/customers")
    assert named_rows(spark, tmp_path, [1, 2, 2, 3]) == [(1, "a"), (2, "-"), (2, "b"), (3, "c")]

    changed = spark.createDataFrame([("1", 5)], "id STRING, other INT")
    changed.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
        f"{tmp_path}/customers"
    )
    said = "its `schema` is not that of .*/customers: `id` is STRING, not INT, no column `name`"
    with pytest.raises(RunError, match=said):
        named_rows(spark, tmp_path, [1, 2, 2, 3, 1])


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_tests_in_the_file_and_the_plan_need_no_table(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = read_pipeline(file_of(tmp_path, [1]), {"LAB": str(tmp_path)})

    assert [outcome.complaints for outcome in run_cases(spark, pipeline)] == [()]
    assert [each.columns for each in plan(spark, pipeline)] == [(("id", "int"), ("name", "string"))]


@pytest.mark.parametrize(
    ("sql", "is_good"),
    [
        ("select value.id, name from orders join customers c on value.id = c.id", True),
        ("select value.id from orders left anti join customers c on value.id = c.id", True),
        ("select value.id, name from customers c right join orders on value.id = c.id", True),
        (
            "select value.id, 'x' as name from orders union all select value.id, '' from orders",
            True,
        ),
        ("select value.id, name from orders right join customers c on value.id = c.id", False),
        ("select value.id, name from orders full join customers c on value.id = c.id", False),
        ("select c.id from customers c left join orders on value.id = c.id", False),
        ("select a.value.id from orders a join orders b on a.value.id = b.value.id", False),
        ("select value.id from orders union all select id from customers", False),
        ("select id, name from customers", False),
    ],
)
def test_a_table_only_adds_to_rows_of_the_stream(
    spark: SparkSession, tmp_path: Path, sql: str, is_good: bool
) -> None:
    pipeline = read_pipeline(file_of(tmp_path, [1], sql), {"LAB": str(tmp_path)})
    if is_good:
        assert plan(spark, pipeline)
        return
    with pytest.raises(ConfigError, match="`customers` may only add to each row of the stream"):
        plan(spark, pipeline)
