"""Sources without a broker, run: each line, row and record once, whatever dies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipelines.base.errors import ChainError, RunError
from pipelines.config.validate import read_pipeline
from pipelines.report.totals import RunResult
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Quiet, dying

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PIPELINE = """\
version: 1
name: local
spark: { checkpoint: "${LAB}/ck" }
sources:
  events:
%s
    decode: { value: { format: json, schema: "n BIGINT", on_error: dead_letter } }
transforms:
  rows: { inputs: [events], sql: "select value.n, topic, offset from events" }
sinks:
  rows: { type: delta, inputs: [rows], path: "${LAB}/rows", mode: append }
  sums:
    { type: delta, inputs: [rows], path: "${LAB}/sums", mode: merge, keys: [topic],
      aggregate: { n: count(*) } }
dead_letter: { type: delta, path: "${LAB}/dead" }
trigger: { available_now: true }
"""
SUMS = PIPELINE[PIPELINE.index("  sums:") : PIPELINE.index("dead_letter: {")]


def run_local(spark, lab: Path, words: str) -> RunResult:
    file = lab / "local.yaml"
    file.write_text(PIPELINE % words)
    return run_pipeline(spark, read_pipeline(file, {"LAB": str(lab)}), Quiet())


def die(spark, lab: Path, words: str, fail: str) -> None:
    with dying(fail), pytest.raises(RunError, match="it died at"):
        run_local(spark, lab, words)


def numbers(spark, lab: Path) -> list[int]:
    return sorted(row.n for row in spark.read.format("delta").load(f"{lab}/rows").collect())


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_lines_of_files_are_read_once_however_they_grow_and_whatever_dies(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    words = f"    type: file\n    path: {folder}\n    limit: {{ bytes: 40 }}"
    one, other = folder / "one.jsonl", folder / "other.jsonl"
    with one.open("a") as file:
        file.writelines(f'{{"n": {n}}}\n' for n in range(10))
        file.write('not json\n{"n": 10')
    die(spark, tmp_path, words, "mid_commit:2@2")
    with one.open("a") as file:
        file.write("}\n")
    other.write_text('{"n": 11}\n{"n": 12}\n')
    shutil.rmtree(tmp_path / "ck")
    die(spark, tmp_path, words, "mid_commit:1@2")
    run_local(spark, tmp_path, words)

    assert numbers(spark, tmp_path) == list(range(13))
    (dead,) = spark.read.format("delta").load(f"{tmp_path}/dead").collect()
    assert (dead.value, dead.topic, dead.offset) == (b"not json", "one.jsonl", 90)
    sums = spark.read.format("delta").load(f"{tmp_path}/sums").collect()
    assert {row.topic: row.n for row in sums} == {"one.jsonl": 11, "other.jsonl": 2}

    one.write_text('{"n": 99}\n')
    with pytest.raises(ChainError):
        run_local(spark, tmp_path, words)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_what_is_bad_since_its_letters_were_written_is_a_letter_too(spark, tmp_path, monkeypatch):
    """The run dies between letters and rows, and somebody makes the file stricter. One sink: of
    two, that die together only where a process does, the other one would write its rows."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "one.jsonl").write_text('{"n": 1}\n{"N": 2}\nnot json\n')
    words = f"    type: file\n    path: {folder}\n"
    alone = PIPELINE.replace(SUMS, "")
    monkeypatch.setattr("tests.spark.pipelines.test_local_sources.PIPELINE", alone)
    die(spark, tmp_path, words, "mid_commit:1")
    stricter = alone.replace("on_error:", "strict: true, on_error:")
    monkeypatch.setattr("tests.spark.pipelines.test_local_sources.PIPELINE", stricter)
    die(spark, tmp_path, words, "mid_commit:1")
    run_local(spark, tmp_path, words)

    assert numbers(spark, tmp_path) == [1]
    dead = spark.read.format("delta").load(f"{tmp_path}/dead").collect()
    assert sorted((row.offset, row.value) for row in dead) == [(9, b'{"N": 2}'), (18, b"not json")]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_sink_that_reads_behind_the_others_has_a_letter_for_what_it_leaves_out(
    spark, tmp_path, monkeypatch
):
    """It comes with a stricter file: what the first sink took has no letter yet."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "one.jsonl").write_text('{"n": 1}\n{"N": 2}\nnot json\n')
    words = f"    type: file\n    path: {folder}\n"
    stricter = PIPELINE.replace("on_error:", "strict: true, on_error:")
    for text in (PIPELINE.replace(SUMS, ""), stricter, stricter):
        monkeypatch.setattr("tests.spark.pipelines.test_local_sources.PIPELINE", text)
        run_local(spark, tmp_path, words)

    (total,) = spark.read.format("delta").load(f"{tmp_path}/sums").collect()
    assert total.n == 1
    dead = spark.read.format("delta").load(f"{tmp_path}/dead").collect()
    assert sorted((row.offset, row.value) for row in dead) == [(9, b'{"N": 2}'), (18, b"not json")]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_rate_goes_on_where_the_table_ends(spark, tmp_path):
    words = (
        "    type: rate\n    rows_per_second: 2\n    start: { last: 30 }\n    limit: { rows: 12 }"
    )

    first = run_local(spark, tmp_path, words)
    shutil.rmtree(tmp_path / "ck")
    run_local(spark, tmp_path, words)

    found = numbers(spark, tmp_path)
    assert first.sinks["rows"].batches >= 3
    assert found == list(range(found[0], found[0] + len(found)))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_records_of_the_file_are_read_as_they_come(spark, tmp_path):
    words = "    type: memory\n    records:\n      - { value: { n: 1 } }\n      - { value: no }"
    run_local(spark, tmp_path, words)
    result = run_local(spark, tmp_path, words + "\n      - { value: { n: 2 }, partition: 1 }")

    assert numbers(spark, tmp_path) == [1, 2]
    assert spark.read.format("delta").load(f"{tmp_path}/dead").count() == 1
    assert result.sinks["rows"].records == 1
