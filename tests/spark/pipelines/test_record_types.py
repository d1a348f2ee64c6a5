"""Several types in one topic: rows of one, the others dead letters or counted, over real tables."""

from __future__ import annotations

import json

import pytest

from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.replay import replays
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TYPES = json.dumps(
    [
        {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]},
        {"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}]},
    ]
)
FILE = """\
version: 1
name: types
spark: {{ checkpoint: "{lab}/ck" }}
sources:
  events:
    type: memory
    records: [{{ value: {{ id: 1 }} }}, {{ value: {{ page: x }} }}, {{ value: {{ id: 2 }} }}, {{ }},
              {{ value: not Avro }}]
    decode:
      value: {{ format: avro, schema: '{types}', type: Order, other_types: {others},
               on_error: dead_letter, tombstones: true }}
transforms: {{ orders: {{ inputs: [events], sql: "select value.id, offset as o from events" }} }}
sinks: {{ orders: {{ type: delta, inputs: [orders], path: "{lab}/orders", mode: append }} }}
dead_letter: {{ type: delta, path: "{lab}/dead" }}
trigger: {{ available_now: true }}
"""
ROWS = [(0, 1), (2, 2), (3, None)]
NOT_AVRO = (4, "the record: no type 55 in a union of 2")


def pipeline(lab, others):
    file = lab / "types.yaml"
    file.write_text(FILE.format(lab=lab, types=TYPES, others=others))
    return read_pipeline(file, {})


def rows(spark, path, offset, *columns):
    """In the order of their offsets."""
    found = spark.read.format("delta").load(str(path)).orderBy(offset).select(offset, *columns)
    return [tuple(row) for row in found.collect()]


def test_records_of_other_types_are_skipped_and_counted(spark, tmp_path):
    result = run_pipeline(spark, pipeline(tmp_path, "skip"), Quiet())

    totals = result.sinks["orders"]
    assert (totals.records, totals.rows, totals.skipped, totals.dead_letters) == (5, 3, 1, 1)
    assert rows(spark, tmp_path / "orders", "o", "id") == ROWS
    assert rows(spark, tmp_path / "dead", "offset", "reason") == [NOT_AVRO]


def test_dead_letters_of_other_types_name_theirs_and_a_replay_with_skip_makes_no_row(
    spark, tmp_path
):
    run_pipeline(spark, pipeline(tmp_path, "dead_letter"), Quiet())
    assert rows(spark, tmp_path / "dead", "offset", "reason") == [
        (1, "a Visit, expected a Order"), NOT_AVRO,
    ]  # fmt: skip

    (outlook,) = replays(spark, pipeline(tmp_path, "skip"), (), lambda replay: replay.run())

    assert [letter.offset for letter in outlook.planned] == [1]
    assert rows(spark, tmp_path / "orders", "o", "id") == ROWS
