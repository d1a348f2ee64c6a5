"""Runs into S3 that are killed while the store fails: each row is there once.

A share of the kill matrix on moto's server, behind a proxy that refuses requests, loses answers and
sends PUTs twice (`tests/support/hostile_store.py`); table, dead letters and checkpoint are there.
By hand: no cell was seen to its end yet (the machine was too busy); then take `slow` off, and one
cell a day runs. The jars have the parts of AWS's SDK that it needs; `test_object_store.py` is with
the whole SDK, as a user's run fetches it.
"""

from __future__ import annotations

import os
import subprocess
from itertools import product
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_broker.client.io_blocking import NewTopic
from tests.support.cli import COMMAND, REPOSITORY, josefine
from tests.support.fixtures import broker_fixture
from tests.support.hostile_store import HostileStore, by_seed
from tests.support.maven import jars_of
from tests.support.object_store import SECRET_KEY, ObjectStore
from tests.support.quick_spark import SPARK

POM = REPOSITORY / "tests/support/s3a/pom.xml"
NAME = "hadoop-aws-3.5.0-with-parts-of-the-sdk"
"""Of PySpark 4.2's Hadoop; a new version in the file above needs a new name."""
CELLS = tuple(
    product(
        ("before_commit", "mid_write", "mid_commit:1", "after_commit_before_log"),
        ("kept", "deleted"),
    )
)
"""(failpoint, the checkpoint after it)."""
FAILING = 0.03
"""The share of requests that fail."""
RUNS_MAX = 4
"""A run may end with an error of the store, never with a row lost or twice."""


def topic_of(place: str, checkpoint: str) -> str:
    return f"{place.replace(':', '')}-{checkpoint}"


broker = broker_fixture(*(NewTopic(topic_of(*cell), 1) for cell in CELLS))

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

FILE = """\
version: 1
name: orders
%(spark)s
sources:
  raw:
    type: josefine
    bootstrap: %(bootstrap)s
    topics: [%(topic)s]
    decode: { value: { format: json, schema: "id INT", on_error: dead_letter } }
transforms:
  ids: { inputs: [raw], sql: select value.id as id from raw }
sinks:
  lake: { type: delta, inputs: [ids], path: "${LAB}/lake", mode: append }
dead_letter: { type: delta, path: "${LAB}/dead" }
trigger: { available_now: true }
"""


@pytest.fixture(scope="module")
def jars() -> str:
    return ",".join(jars_of(POM, NAME))


def pipeline_run(file: Path, bucket: str, fail: str = "") -> subprocess.CompletedProcess[str]:
    """A process of its own; `fail`: where it dies."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "S3_SECRET": SECRET_KEY}
    env |= {"LAB": f"s3a://{bucket}", "JOSEFINE_FAIL": fail}
    return subprocess.run(
        [*COMMAND, "pipeline", "run", str(file)],
        env=env, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("place", "checkpoint"), CELLS)
@pytest.mark.long_proof(share=8)
def test_a_killed_run_into_a_failing_store_continues_with_each_row_once(
    broker, tmp_path, jars, place, checkpoint
):
    topic = topic_of(place, checkpoint)
    faults = by_seed(CELLS.index((place, checkpoint)), FAILING)
    with ObjectStore() as store, HostileStore(store.endpoint, faults) as failing:
        bucket, conf = store.bucket(), {**store.conf, "spark.jars": jars}
        conf["spark.hadoop.fs.s3a.endpoint"] = failing.endpoint
        added = "".join(f'    {name}: "{value}"\n' for name, value in conf.items())
        spark = SPARK.replace("  checkpoint:", f"{added}  checkpoint:")
        words = {"spark": spark, "bootstrap": broker.bootstrap, "topic": topic}
        file = tmp_path / "orders.yaml"
        file.write_text(FILE % words)
        made = josefine(broker.bootstrap, "produce", topic, stdin='{"id": 1}\n{"id": 2}\nodd\n')
        assert made.code == 0, made.err

        killed = pipeline_run(file, bucket, fail=place)
        assert killed.returncode in (137, -9), killed.stderr
        if checkpoint == "deleted":
            store.system.delete_dir(f"{bucket}/checkpoints")
        said = []
        for _ in range(RUNS_MAX):
            done = pipeline_run(file, bucket)
            said.append(done.stderr)
            if done.returncode == 0:
                break

        assert done.returncode == 0, said
        assert failing.seen
        table = DeltaTable(f"s3a://{bucket}/lake", storage_options=store.delta)
        assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 2]
        dead = DeltaTable(f"s3a://{bucket}/dead", storage_options=store.delta)
        assert dead.to_pyarrow_table().num_rows == 1
