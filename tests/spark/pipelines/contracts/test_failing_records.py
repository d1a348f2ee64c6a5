"""Whatever records fail, and however the batches are cut and killed: the good ones are in the table
and the failing ones are dead letters, each once."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """
version: 1
name: failing
spark: { checkpoint: "${LAB}/ck" }
sources:
  ev:
    type: file
    path: ${LAB}/ev
    limit: { bytes: "${BYTES}" }
    decode: { value: { format: json, schema: "id INT, n STRING" } }
transforms: { rows: { inputs: [ev], sql: "select value.id, int(value.n) as n from ev" } }
sinks:
  lake: { type: delta, inputs: [rows], path: "${LAB}/lake", mode: append, on_error: dead_letter }
dead_letter: { type: delta, path: "${LAB}/dead" }
trigger: { available_now: true }
"""
COUNT = 10


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))]
)
def test_each_record_is_a_row_or_a_dead_letter_once(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    bad = set(rng.sample(range(COUNT), rng.randint(1, 3)))
    lab = FilesLab(spark, tmp_path, FILE, ["ev"])
    lab.bytes = rng.randint(60, 200)
    lab.add("ev", *(json.dumps({"id": n, "n": "x" if n in bad else "1"}) for n in range(COUNT)))

    lab.die(f"mid_commit:1@{rng.randint(1, 2)}")
    lab.bytes = rng.randint(60, 200)
    lab.run()

    assert sorted(row.id for row in lab.collected()) == [n for n in range(COUNT) if n not in bad]
    letters = sorted(json.loads(row.value)["id"] for row in lab.collected("dead"))
    assert letters == sorted(bad)
