"""JSON arrays whose elements are rows: once each, bad ones dead letters that come back alone."""

from __future__ import annotations

import shutil

import pytest

from pipelines.base.errors import RunError
from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.replay import replays
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Quiet, dying

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """\
version: 1
name: arrays
spark: {{ checkpoint: "{lab}/ck" }}
sources:
  events:
    type: memory
    records:
      - {{ value: [{{ n: 1 }}, {{ n: 2 }}], key: k }}
      - {{ value: "[]" }}
      - {{ value: '[{{"n": 3}}, {{"n": 4, "d": 1.25}}, 5]' }}
      - {{ value: '{{"n": 6}}' }}
      - {{ }}
      - {{ value: '[{{"n": 7}}, {{"n": 8, "d": 2.25}}]' }}
    decode:
      value: {{ format: json, schema: "n INT, d DECIMAL(4,1)", {accept} explode: true,
               on_error: dead_letter, tombstones: true }}
      key: {{ format: string }}
transforms:
  rows: {{ inputs: [events], sql: "select value.n, value.d, key, offset as o from events" }}
sinks: {{ rows: {{ type: delta, inputs: [rows], path: "{lab}/rows", mode: append }} }}
dead_letter: {{ type: delta, path: "{lab}/dead" }}
trigger: {{ available_now: true }}
"""
LENIENT = "accept: [rounded_decimals],"
ROWS = [(0, 1, "k"), (0, 2, "k"), (2, 3, None), (4, None, None), (5, 7, None)]
ROUNDED = "does not fit the schema: d DECIMAL(4,1) would be rounded"
LETTERS = [
    (2, f"element 1: {ROUNDED}", b'[{"n": 4, "d": 1.25}]'),
    (2, "element 2: JSON, but not an object", b"[5]"),
    (3, "JSON, but not an array", b'{"n": 6}'),
    (5, f"element 1: {ROUNDED}", b'[{"n": 8, "d": 2.25}]'),
]


@pytest.fixture
def started(spark, tmp_path):
    def started(accept="", do=lambda pipeline: run_pipeline(spark, pipeline, Quiet())):
        file = tmp_path / "arrays.yaml"
        file.write_text(FILE.format(lab=tmp_path, accept=accept))
        return do(read_pipeline(file, {}))

    return started


@pytest.fixture
def table(spark, tmp_path):
    def table(name, *columns):
        found = spark.read.format("delta").load(f"{tmp_path}/{name}").select(*columns)
        return sorted((tuple(row) for row in found.collect()), key=repr)

    return table


def test_elements_are_rows_once_and_bad_ones_dead_letters_with_their_index(
    started, table, tmp_path
):
    # Its dead letters are committed, and its rows are not: then the file becomes stricter.
    with dying("mid_commit:1"), pytest.raises(RunError, match="it died"):
        started(LENIENT)
    result = started()
    shutil.rmtree(tmp_path / "ck")
    started()

    assert table("rows", "o", "n", "key") == ROWS
    assert table("dead", "offset", "reason", "value") == LETTERS
    assert result.sinks["rows"].records == 6


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_replay_makes_the_rows_of_the_bad_elements_alone(spark, started, table):
    started()
    for _ in range(2):
        (outlook,) = started(LENIENT, lambda file: replays(spark, file, (), lambda one: one.run()))

    assert table("rows", "o", "n", "key") == [*ROWS[:4], ROWS[4], (5, 8, None)]
    assert dict(outlook.held) == {
        "still: element 0: JSON, but not an object": 1,
        "still: JSON, but not an array": 1,
    }
