"""Spark's own runner takes an exported pipeline as it is written: `spark-pipelines run`.

Skipped without grpcio (`pip install 'josefine[connect]'`).
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from josefine_spark.sessions.session import delta_conf
from tests.support.broker import REPOSITORY, BrokerProcess
from tests.support.spark_cluster import environment

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is missing"),
]

PIPELINE = """\
version: 1
name: exported
spark: {{ master: "local[2]", checkpoint: "{folder}/ck" }}
sources:
  events:
    type: josefine
    bootstrap: {bootstrap}
    topics: [events]
    start: earliest
    decode: {{ value: {{ format: json, schema: "id INT, k STRING", on_error: dead_letter }} }}
transforms:
  rows: {{ inputs: [events], sql: "select value.id, upper(value.k) as k from events" }}
sinks:
  lake: {{ type: delta, inputs: [rows], path: "{folder}/lake", mode: append }}
dead_letter: {{ type: delta, path: "{folder}/dead" }}
trigger: {{ available_now: true }}
"""
ROWS = 20


def test_spark_pipelines_runs_what_was_exported(tmp_path: Path) -> None:
    """By the command that the export advises. A second run takes only what came since."""
    with BrokerProcess(tmp_path / "b") as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("events", 1)])
        file = tmp_path / "exported.yaml"
        file.write_text(PIPELINE.format(folder=tmp_path, bootstrap=broker.bootstrap))
        command = [sys.executable, "-m", "josefine_cli.main", "pipeline", "export", str(file)]
        made = finished([*command, "--sdp", str(tmp_path / "sdp")])
        for first in (0, ROWS):
            records = [
                Record(None, b'{"id": %d, "k": "a"}' % n) for n in range(first, first + ROWS)
            ]
            records.append(Record(None, b"not json"))
            client.produce({TopicPartition("events", 0): build_batch(records)})
            # The table of a sink with a path has to be there for Spark's runner, and is made.
            finished(runner(tmp_path / "sdp" / "spark-pipeline.yml"))

    table = DeltaTable(tmp_path / "lake").to_pyarrow_table()
    assert "spark.master: spark-pipelines takes --remote 'local[2]' instead" in made
    assert sorted(table.column("id").to_pylist()) == list(range(2 * ROWS))
    assert {*table.column("k").to_pylist()} == {"A"}


def runner(spec: Path) -> list[str]:
    """The command on top of the exported file, with the jars that are here instead of Maven's."""
    lines = [line.removeprefix("#").strip(" \\") for line in spec.read_text().splitlines()]
    first = next(n for n, line in enumerate(lines) if line.startswith("spark-pipelines "))
    last = next(n for n, line in enumerate(lines) if line.startswith("run --spec "))
    words = shlex.split(" ".join(lines[first : last + 1]))
    at = next(n for n, word in enumerate(words) if word.startswith("spark.jars.packages="))
    jars = [
        part for name, value in delta_conf({}).items() for part in ("--conf", f"{name}={value}")
    ]
    program = str(Path(sys.executable).with_name(words[0]))
    return [program, *words[1 : at - 1], *jars, *words[at + 1 : -1], str(spec)]


def finished(command: list[str]) -> str:
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        env={**environment(), "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout + done.stderr
