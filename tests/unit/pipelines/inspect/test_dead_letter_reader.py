"""`josefine pipeline dlq show` without Spark: counts, order, replayed dead letters, no JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from josefine_cli.main import run
from pipelines.base.variables import Variables
from pipelines.config.validate import examine
from pipelines.inspect.dead_letter_reader import read_summary
from tests.unit.pipelines.base.test_secrets import SECRET

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
FILE = """
version: 1
name: orders
spark:
  checkpoint: {root}/ck
  conf: {{ spark.hadoop.fs.s3a.secret.key: "${{secret:env:KEY}}" }}
sources: {{ a: {{ type: josefine, bootstrap: "b:9092", topics: [t] }} }}
sinks: {{ s: {{ type: delta, inputs: [a], path: "{root}/s", mode: append }} }}
trigger: {{ available_now: true }}
dead_letter: {{ type: delta, path: "{dead}" }}
"""
TYPES = {
    "source": pa.string(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"), "key": pa.binary(), "value": pa.binary(),
    "reason": pa.string(),
}  # fmt: skip


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("KEY", SECRET)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    return _file(tmp_path, f"{tmp_path}/dead")


def _file(root: Path, dead: str) -> Path:
    file = root / "orders.yaml"
    file.write_text(FILE.format(root=root, dead=dead))
    return file


def _letter(offset: int, reason: str = "not JSON", value: bytes = b"x", second: int = 0) -> dict:
    at = AT + timedelta(seconds=second)
    return {
        "source": "a", "topic": "t", "partition": 0, "offset": offset, "timestamp": at,
        "key": None, "value": value, "reason": reason,
    }  # fmt: skip


def _write(path: Path, *letters: dict) -> None:
    rows = pa.Table.from_pylist(list(letters), pa.schema(TYPES))
    write_deltalake(str(path), rows, mode="append")


def _replayed(path: Path, letter: dict, pipeline: str = "orders") -> None:
    names = ["source", "topic", "partition", "offset", "timestamp"]
    schema = pa.schema({"pipeline": pa.string(), **{name: TYPES[name] for name in names}})
    row = {"pipeline": pipeline, **{name: letter[name] for name in names}}
    write_deltalake(str(path), pa.Table.from_pylist([row], schema), mode="append")


def _shown(capsys, file: Path, *options: str) -> dict:
    assert run(["pipeline", "dlq", "show", str(file), "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_newest_by_time_come_first_and_counts_are_of_all(file, tmp_path, capsys):
    _write(tmp_path / "dead", _letter(1, second=9), _letter(2), _letter(3, "null"), _letter(4))

    shown = _shown(capsys, file, "-n", "2")

    assert [each["offset"] for each in shown["letters"]] == [1, 4]
    assert shown["reasons"] == [
        {"source": "a", "reason": "not JSON", "letters": 3},
        {"source": "a", "reason": "null", "letters": 1},
    ]
    assert shown["letters"][1] == {
        "source": "a", "topic": "t", "partition": 0, "offset": 4, "reason": "not JSON",
        "timestamp": "2026-01-02T03:04:05.678Z", "key": None, "value": "x",
        "sink": None, "stage": None,
    }  # fmt: skip


def test_replayed_dead_letters_of_this_pipeline_are_shown_with_all_only(file, tmp_path, capsys):
    one, two, again = _letter(1), _letter(2), _letter(1, second=1)  # again: a recreated topic
    _write(tmp_path / "dead", one, two, again)
    _replayed(tmp_path / "dead_replayed", one)
    _replayed(tmp_path / "dead_replayed", two, pipeline="another")

    waiting = _shown(capsys, file)
    every = _shown(capsys, file, "--all")

    assert [each["offset"] for each in waiting["letters"]] == [1, 2]
    assert waiting["letters"][0]["timestamp"] == "2026-01-02T03:04:06.678Z"
    assert waiting["reasons"][0]["letters"] == 2
    assert len(every["letters"]) == every["reasons"][0]["letters"] == 3


def test_unreadable_batches_are_one_reason_and_their_value_is_a_size(file, tmp_path, capsys):
    reasons = [f"unreadable batch, offsets {n} to {n + 4}: CRC" for n in (0, 5)]
    _write(tmp_path / "dead", _letter(0, reasons[0], b"\x00" * 7), _letter(5, reasons[1]))

    shown = _shown(capsys, file)

    assert shown["reasons"] == [{"source": "a", "reason": "unreadable batch: CRC", "letters": 2}]
    assert shown["letters"][1]["value"] == "7 bytes of a batch"


def test_a_dead_letter_without_a_timestamp_is_the_last_and_is_never_lost(file, tmp_path, capsys):
    _write(tmp_path / "dead", {**_letter(1), "timestamp": None}, _letter(2))

    shown = _shown(capsys, file)

    assert [each["timestamp"] for each in shown["letters"]] == ["2026-01-02T03:04:05.678Z", None]


def test_a_missing_table_has_no_dead_letters(file, tmp_path, capsys):
    assert run(["pipeline", "dlq", "show", str(file)]) == 0

    assert capsys.readouterr().out == f"{tmp_path}/dead: 0 dead letters not replayed\n"


def test_a_secret_in_a_dead_letter_is_hidden(file, tmp_path, capsys):
    _write(tmp_path / "dead", _letter(1, f"no {SECRET}", SECRET.encode()))

    assert run(["pipeline", "dlq", "show", str(file)]) == 0
    assert run(["pipeline", "dlq", "show", str(file), "--json"]) == 0

    assert SECRET not in capsys.readouterr().out


@pytest.mark.parametrize("dead", ["abfss://lake@a/dead", "file:{root}/late", "{root}/torn"])
def test_what_delta_rs_cannot_read_is_left_to_spark(file, tmp_path, dead):
    _write(tmp_path / "late", {**_letter(1), "timestamp": 253_402_300_800_000_000})  # year 10000
    (tmp_path / "torn/_delta_log").mkdir(parents=True)
    (tmp_path / f"torn/_delta_log/{0:020}.json").write_text("no commit")
    text = _file(tmp_path, dead.format(root=tmp_path)).read_text()
    pipeline = examine(text, "orders.yaml", Variables(env={"KEY": SECRET})).pipeline

    assert read_summary(pipeline, 20, every=False, env={}) is None


def test_no_jvm_and_no_pyspark_is_needed(file, tmp_path):
    _write(tmp_path / "dead", _letter(1))
    code = (
        "import sys; from josefine_cli.main import run; code = run(sys.argv[1:]);"
        "print([m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')]); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "pipeline", "dlq", "show", str(file)]
    env = {**os.environ, "JAVA_HOME": "/nowhere", "SPARK_HOME": "/nowhere"}

    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{tmp_path}/dead: 1 dead letter not replayed"
    assert lines[-1] == "[]"
    assert "t-0@1" in done.stdout
