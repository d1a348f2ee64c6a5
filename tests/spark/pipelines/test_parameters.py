"""Parameters of SQL in Spark: values of their type, whatever characters a text has."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

from pipelines.config.validate import read_pipeline
from pipelines.inspect.file_tests import run_cases
from pipelines.model.parameters import literal

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

VALUES = {
    "nasty": "it's; \\ ' or 1=1 -- ${x} :n",
    "plain": "a b",
    "small": -5,
    "large": 2**40,
    "ratio": 0.1,
    "flag": True,
    "wide": "Zürich \u2603",
}
FILE = """\
version: 1
name: bound
spark: { checkpoint: /ck }
params: { nasty: "it's; \\\\ ' or 1=1 -- $${x}", least: 2, top: 0.5 }
sources:
  raw:
    type: memory
    records: [{ value: { id: 1 } }]
    decode: { value: { format: json, schema: "id INT, name STRING", on_error: dead_letter } }
transforms:
  rows:
    inputs: [raw]
    sql: >-
      select value.*, :nasty as said, typeof(:top) as kind, topic, partition, offset
      from raw where value.id >= :least
checks:
  named: { on: rows, expr: "name <> :nasty", action: dead_letter }
sinks:
  latest:
    { type: delta, inputs: [rows], path: /t/latest, mode: upsert, keys: [id], order_by: offset,
      delete_when: "name = :nasty or id = :least" }
dead_letter: { type: delta, path: /t/dead }
trigger: { available_now: true }
tests:
  - name: values
    given: { raw: [{ value: { id: 1, name: a } }, { value: { id: 2, name: a } },
                   { value: { id: 3, name: b } },
                   { value: { id: 4, name: "it's; \\\\ ' or 1=1 -- $${x}" } }] }
    expect:
      rows: { columns: subset, rows: [ { id: 2, kind: double }, { id: 3, kind: double } ] }
      latest: { columns: subset, rows: [ { id: 3, said: "it's; \\\\ ' or 1=1 -- $${x}" } ] }
      dead_letter: { columns: subset, rows: [ { offset: 3 } ] }
"""


def test_a_parameter_is_a_value_in_every_sql_text(spark, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(FILE)

    (outcome,) = run_cases(spark, read_pipeline(file, {}))

    assert outcome.complaints == ()


@pytest.mark.parametrize("escaped", ["true", "false"])
def test_a_literal_is_what_spark_binds(spark, escaped):
    session = spark.newSession()
    session.conf.set("spark.sql.parser.escapedStringLiterals", escaped)
    literals = ", ".join(f"{literal(value)} as {name}" for name, value in VALUES.items())

    written = session.sql(f"select {literals}")

    assert written.collect()[0].asDict() == VALUES
    bound = session.range(1).select(*[F.lit(value).alias(name) for name, value in VALUES.items()])
    assert written.dtypes == bound.dtypes
