"""Transforms in Python: their rows are in the tables once, and their mistakes are told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.base.errors import ConfigError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.plan import plan
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PIPELINE = """\
version: 1
name: functions
spark: { checkpoint: "${LAB}/ck" }
sources:
  orders:
    type: memory
    records: [ %s ]
    decode: { value: { format: json, schema: "id INT, name STRING" } }
  customers: { type: delta, path: "${LAB}/customers", schema: "id INT, city STRING" }
transforms:
  some: { inputs: [orders], sql: "select value.*, offset from orders" }
  made: { inputs: [some, customers], python: own.py:made }
checks: { named: { on: made, expr: "shouted != 'BAD'", action: drop } }
sinks:
  made: { type: delta, inputs: [made], path: "${LAB}/made", mode: append }
trigger: { available_now: true }
tests:
  - name: of a function
    given:
      orders: [ { value: { id: 1, name: a } }, { value: { id: 2, name: bad } } ]
      customers: [ { id: 1, city: x } ]
    expect: { made: { rows: [ { shouted: A, city: x } ], columns: subset } }
"""
OWN = """\
from __future__ import annotations
from dataclasses import dataclass
from pyspark.sql import DataFrame, functions as F

@dataclass
class Voice:
    loud: bool

    def of(self, name: str) -> str:
        return name.upper() if self.loud else name

VOICE = Voice(loud=True)

@F.udf("string")
def shouted(name):
    return VOICE.of(name)

def made(orders: DataFrame, customers: DataFrame) -> DataFrame:
    both = orders.join(customers, "id", "left")
    return both.select("id", "city", shouted("name").alias("shouted"), "offset")
"""


def file_of(lab: Path, names: list[str], own: str = OWN) -> Path:
    (lab / "own.py").write_text(own)
    records = (f"{{ value: {{ id: {n}, name: {each} }} }}" for n, each in enumerate(names))
    file = lab / "functions.yaml"
    file.write_text(PIPELINE % ", ".join(records))
    return file


def shouted_rows(spark: SparkSession, lab: Path, names: list[str], own: str = OWN) -> list[str]:
    pipeline = read_pipeline(file_of(lab, names, own), {"LAB": str(lab)})
    run_pipeline(spark, pipeline, Quiet())
    rows = spark.read.format("delta").load(f"{lab}/made").collect()
    return sorted(f"{row['offset']} {row['shouted']} {row['city']}" for row in rows)


def test_rows_of_a_function_are_there_once_though_the_checkpoint_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = spark.createDataFrame([(1, "x")], "id INT, city STRING")
    table.write.format("delta").save(f"{tmp_path}/customers")

    assert shouted_rows(spark, tmp_path, ["a", "b", "bad"]) == ["0 A None", "1 B x"]
    shutil.rmtree(tmp_path / "ck")
    quiet = OWN.replace("loud=True", "loud=False")
    assert shouted_rows(spark, tmp_path, ["a", "b", "bad", "c"], quiet) == [
        "0 A None",
        "1 B x",
        "3 c None",
    ]

    pipeline = read_pipeline(file_of(tmp_path, ["a"]), {"LAB": str(tmp_path)})
    assert [outcome.complaints for outcome in run_cases(spark, pipeline)] == [()]


BODY = OWN[OWN.index("    both") :]


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("    raise ValueError('no such voice')\n", r"own\.py:19: ValueError: no such voice$"),
        ("    return 5\n", r"`made` gave `int`; expected a DataFrame$"),
        ("    orders.count()\n", r"`made` gave nothing; expected a DataFrame$"),
        ("    return orders.select('nam')\n", r"own\.py:19: AnalysisException: .*`nam` cannot be"),
        ("    return orders.groupBy('id').count()\n", r"GROUP BY needs more than one batch"),
        ("    return orders.withWatermark('offset', '1 s')\n", r"own\.py:19: AnalysisException: "),
        (
            "    f = lambda frame: frame\n"
            "    return orders.groupBy('id').applyInPandas(f, orders.schema)\n",
            r"`FlatMapGroupsInPandas` needs more than one batch",
        ),
        (
            "    return customers.join(orders, 'id', 'left')\n",
            r"`customers` may only add to each row of the stream",
        ),
    ],
)
def test_what_is_wrong_with_a_function_is_told_before_a_run(
    spark: SparkSession, tmp_path: Path, body: str, told: str
) -> None:
    file = file_of(tmp_path, ["a"], OWN.replace(BODY, body))
    file.write_text(file.read_text().replace("shouted != 'BAD'", "1 > 0"))

    with pytest.raises(ConfigError, match=r"transforms\.made\.python: .*" + told):
        plan(spark, read_pipeline(file, {"LAB": str(tmp_path)}))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_file_that_cannot_be_imported_is_told_with_its_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = file_of(tmp_path, ["a"], OWN + "import none_such\n")

    with pytest.raises(ConfigError, match=r"own\.py:21: ModuleNotFoundError: No module named"):
        plan(spark, read_pipeline(file, {"LAB": str(tmp_path)}))
