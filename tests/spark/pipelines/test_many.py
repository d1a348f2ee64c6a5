"""Several files in one `josefine pipeline run`, on one Spark, without a broker."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
from deltalake import DeltaTable

from josefine_cli.main import run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

FILE = """
version: 1
name: NAME
spark: { checkpoint: LAB/checkpoints }
sources:
  given:
    type: memory
    records: [ { value: { n: "1" } }, { value: { n: "TEXT" } } ]
    decode: { value: { format: json, schema: "n STRING" } }
transforms:
  rows: { inputs: [given], sql: "select cast(value.n as int) as n from given" }
sinks:
  rows: { type: delta, inputs: [rows], path: LAB/NAME, mode: append }
trigger: { available_now: true }
"""


def test_two_files_run_on_one_spark_and_one_failure_does_not_stop_the_other(
    spark, tmp_path, monkeypatch, capsys
):
    files = []
    for name, text in (("bad", "x"), ("good", "2")):
        file = tmp_path / f"{name}.yaml"
        words = {"NAME": name, "LAB": str(tmp_path), "TEXT": text}
        said = FILE
        for word, value in words.items():
            said = said.replace(word, value)
        file.write_text(said)
        files.append(str(file))
    monkeypatch.setattr("pipelines.run.session.session_of_all", lambda _: nullcontext(spark))
    monkeypatch.setattr("josefine_cli.pipeline.run_many.stop_on_signals", lambda _: None)

    assert run(["pipeline", "run", "--json", *files]) == 1

    said = capsys.readouterr()
    assert "error: bad: sink `rows`: " in said.err
    assert "cannot be cast" in said.err
    summaries = {one["name"]: one for one in map(json.loads, said.out.splitlines())}
    assert summaries["good"]["sinks"]["rows"]["rows"] == 2
    assert [*summaries["bad"]["failures"]] == ["rows"]
    rows = DeltaTable(str(tmp_path / "good")).to_pyarrow_table()["n"].to_pylist()
    assert sorted(rows) == [1, 2]
