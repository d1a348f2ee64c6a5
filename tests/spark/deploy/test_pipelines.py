"""A pipeline on a standalone cluster of two workers: append, merge and a Python function, and an
executor killed in the middle. By hand: `pytest -m slow tests/spark/deploy`.

Driver and executors run the package that is installed in an environment of its own, as on machines
that have it each: docs/reference/pipelines/running.md, "On a cluster".
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.shipping import build, install, linked_environment
from tests.support.spark_cluster import SparkCluster, environment, kill
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

TIMEOUT_S = 600.0
COUNT = 400
PIPELINE = """\
version: 1
name: afar
spark:
  master: ${MASTER}
  conf:
    spark.executor.memory: 512m
    spark.driver.memory: 1g
    spark.sql.shuffle.partitions: 2
    spark.driver.host: 127.0.0.1
    spark.driver.bindAddress: 127.0.0.1
  checkpoint: ${LAB}/ck
sources:
  events:
    type: josefine
    bootstrap: ${BOOTSTRAP}
    topics: [afar]
    limit: { rows: 40 }
    decode: { value: { format: json, schema: "id INT", on_error: fail } }
transforms:
  marked: { inputs: [events], python: "functions.py:marked" }
sinks:
  rows: { type: delta, inputs: [marked], path: "${LAB}/rows", mode: append }
  sums:
    { type: delta, inputs: [marked], path: "${LAB}/sums", mode: merge, keys: [odd],
      aggregate: { records: count(*), id_sum: sum(id) } }
trigger: { available_now: true }
"""
FUNCTIONS = '''
def marked(events):
    """With a function that Python runs on the executors."""
    from pyspark.sql.functions import udf

    def worker(number):
        return number % 2

    return events.selectExpr("value.id").withColumn("odd", udf(worker, "int")("id"))
'''

THEIRS = """\
version: 1
name: theirs
spark:
  master: local[1]
  conf: { spark.sql.shuffle.partitions: 1, spark.ui.enabled: false }
  checkpoint: ck
sources:
  lines: { type: file, path: "${LAB}/in", decode: { value: { format: json, schema: "id INT" } } }
transforms:
  owned: { inputs: [lines], python: "functions.py:owned" }
sinks:
  rows: { type: delta, inputs: [owned], path: "${LAB}/rows", mode: append }
trigger: { available_now: true }
"""
OWNED = '''
import pipelines
import raft


def owned(lines):
    """Whose packages the driver and a worker import by the names that our folders have."""
    from pyspark.sql.functions import udf

    def owner(number):
        from pipelines.names import OWNER
        import raft

        return f"{OWNER}, {raft.OWNER}"

    driver = f"{pipelines.OWNER}, {raft.OWNER}"
    return lines.selectExpr("value.id", f"'{driver}' driver").withColumn("worker", udf(owner)("id"))
'''


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that the package is installed in; nothing of these sources is in reach."""
    directory = tmp_path_factory.mktemp("shipped")
    (directory / "tree").mkdir()
    wheels = build(directory / "tree").glob("*.whl")
    made = linked_environment(directory / "environment")
    install(directory / "environment", *map(str, wheels))
    return made


@pytest.fixture
def afar(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the pipeline, and its variables: a broker with a topic, a cluster."""
    (tmp_path / "afar.yaml").write_text(PIPELINE)
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    with (
        BrokerProcess(tmp_path / "broker") as broker,
        SparkCluster(tmp_path / "cluster") as cluster,
        BlockingClient(broker.bootstrap) as client,
    ):
        client.create_topics([NewTopic("afar", 2)])
        for partition in (0, 1):
            events = [json.dumps({"id": n}).encode() for n in range(partition, COUNT, 2)]
            records = [Record(None, event) for event in events]
            client.produce({TopicPartition("afar", partition): build_batch(records)})
        lab = {"LAB": str(tmp_path), "BOOTSTRAP": broker.bootstrap, "MASTER": cluster.url}
        yield tmp_path, lab


def executors() -> list[int]:
    """The executors of this machine that our cluster started."""
    found = subprocess.run(
        ["pgrep", "-f", "CoarseGrainedExecutorBackend.*--worker-url"], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return [int(pid) for pid in found.stdout.split()]


def commits(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))


def test_a_pipeline_on_two_workers_is_right_although_an_executor_is_killed(
    python: Path, afar: tuple[Path, dict[str, str]]
) -> None:
    folder, variables = afar
    before = set(executors())
    run = subprocess.Popen(
        [str(python), "-m", "josefine_cli.main", "pipeline", "run", "afar.yaml", "--json"],
        cwd=folder, env={**environment(), **variables, "PYSPARK_PYTHON": str(python)}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_until(
            lambda: commits(folder / "rows") > 2 or run.poll() is not None, TIMEOUT_S, "a batch"
        )
        ours = sorted(pid for pid in executors() if pid not in before and _is_of(pid, folder))
        assert len(ours) == 2 or run.poll() is not None
        kill(ours[0])
        _, stderr = run.communicate(timeout=TIMEOUT_S)
    finally:
        run.kill()

    assert run.returncode == 0, stderr[-3000:]
    ids = DeltaTable(folder / "rows").to_pyarrow_table()["id"].to_pylist()
    assert sorted(ids) == list(range(COUNT))
    sums = DeltaTable(folder / "sums").to_pyarrow_table().to_pylist()
    assert {row["odd"]: (row["records"], row["id_sum"]) for row in sums} == {
        odd: (COUNT // 2, sum(range(odd, COUNT, 2))) for odd in (0, 1)
    }


def test_a_python_function_imports_the_users_own_packages_of_the_names_of_ours(
    python: Path, tmp_path: Path
) -> None:
    for name in ("pipelines", "raft"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'the user'\n")
    (tmp_path / "pipelines" / "names.py").write_text("OWNER = 'the user'\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    (tmp_path / "theirs.yaml").write_text(THEIRS)
    (tmp_path / "functions.py").write_text(OWNED)
    variables = {"PYTHONPATH": str(tmp_path), "LAB": str(tmp_path)}

    done = subprocess.run(
        [str(python.with_name("josefine")), "pipeline", "run", "theirs.yaml", "--json"],
        cwd=tmp_path, env={**environment(), **variables, "PYSPARK_PYTHON": str(python)}, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    rows = DeltaTable(tmp_path / "rows").to_pyarrow_table().to_pylist()
    both = "the user, the user"
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": number, "driver": both, "worker": both} for number in (1, 2)
    ]


def _is_of(pid: int, folder: Path) -> bool:
    try:
        return str(folder) in os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
