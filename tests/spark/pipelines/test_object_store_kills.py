"""Runs into S3 that are killed while the store fails: each row is there once.

A share of the kill matrix on moto's server, behind a proxy that refuses requests, loses answers and
sends PUTs twice (`tests/support/hostile_store.py`); table, dead letters and checkpoint are there.
Both fates of the checkpoint share a driver that is killed and one that continues (`cells_driver`);
each day one dies in place, which needs one start of Spark (`store_driver`). The jars have the parts
of AWS's SDK that it needs; `test_object_store.py` has the whole SDK, as a user's run fetches it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_broker.client.io_blocking import NewTopic
from tests.support.cli import COMMAND, REPOSITORY, josefine
from tests.support.fixtures import broker_fixture
from tests.support.hostile_store import HostileStore, by_seed
from tests.support.maven import NoJarsError, jars_of
from tests.support.object_store import SECRET_KEY, ObjectStore
from tests.support.quick_spark import SPARK

POM = REPOSITORY / "tests/support/s3a/pom.xml"
NAME = "hadoop-aws-3.5.0-with-parts-of-the-sdk"
"""Of PySpark 4.2's Hadoop; a new version in the file above needs a new name."""
PLACES = ("before_commit", "mid_write", "mid_commit:1", "after_commit_before_log")
CHECKPOINTS = ("kept", "deleted")
FAILING = 0.03
"""The share of requests that fail."""
RUNS_MAX = 4
"""A run may end with an error of the store, never with a row lost or twice."""
KILLED = (137, -9)


def topic_of(place: str, checkpoint: str) -> str:
    return f"{place.replace(':', '')}-{checkpoint}"


broker = broker_fixture(*(NewTopic(topic_of(p, c), 1) for p in PLACES for c in CHECKPOINTS))

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FILE = """\
version: 1
name: %(name)s
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
  lake: { type: delta, inputs: [ids], path: "%(lab)s/lake", mode: append }
dead_letter: { type: delta, path: "%(lab)s/dead" }
trigger: { available_now: true }
"""
SOON = {
    "spark.hadoop.fs.s3a.retry.limit": "4",
    "spark.hadoop.fs.s3a.retry.interval": "50ms",
    "spark.hadoop.fs.s3a.retry.throttle.limit": "6",
    "spark.hadoop.fs.s3a.retry.throttle.interval": "50ms",
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
}
"""Retries without long pauses: each fault is over when the next request comes."""


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        return ",".join(jars_of(POM, NAME))
    except NoJarsError as error:
        pytest.skip(str(error))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "S3_SECRET": SECRET_KEY}


def driver(*command: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, to its end or death."""
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )


def until(codes: tuple[int, ...], *command: str) -> None:
    """Run until it ends with one of these codes."""
    said = []
    for _ in range(RUNS_MAX):
        done = driver(*command)
        if done.returncode in codes:
            return
        said.append(done.stderr[-3000:])
    raise AssertionError("\n".join(said))


Stores = tuple[ObjectStore, HostileStore]
"""The store, and the one that fails in front of it."""


class Lakes:
    """Pipelines whose tables and checkpoints are in a store that fails, each with its records in
    its topic: one for each of `checkpoints`, named like it."""

    def __init__(
        self, broker, folder: Path, jars: str, stores: Stores, place: str, *checkpoints: str
    ) -> None:
        self._store, self._failing = store, failing = stores
        self.bucket = store.bucket()
        self.folders = [folder / each for each in checkpoints]
        conf = {**store.conf, "spark.jars": jars, **SOON}
        conf["spark.hadoop.fs.s3a.endpoint"] = failing.endpoint
        added = "".join(f'    {name}: "{value}"\n' for name, value in conf.items())
        spark = SPARK.replace("  checkpoint:", f"{added}  checkpoint:")
        for each in self.folders:
            each.mkdir()
            topic, lab = topic_of(place, each.name), f"s3a://{self.bucket}/{each.name}"
            words = {
                "name": each.name, "lab": lab, "bootstrap": broker.bootstrap, "topic": topic,
                "spark": spark.replace("${LAB}", lab),
            }  # fmt: skip
            (each / "lab.yaml").write_text(FILE % words)
            made = josefine(broker.bootstrap, "produce", topic, stdin='{"id": 1}\n{"id": 2}\nodd\n')
            assert made.code == 0, made.err

    def lose_checkpoint(self) -> None:
        self._store.system.delete_dir(f"{self.bucket}/deleted/checkpoints")

    def check(self) -> None:
        assert self._failing.seen
        for each in self.folders:
            at, options = f"s3a://{self.bucket}/{each.name}", self._store.delta
            table = DeltaTable(f"{at}/lake", storage_options=options).to_pyarrow_table()
            assert sorted(table["id"].to_pylist()) == [1, 2]
            dead = DeltaTable(f"{at}/dead", storage_options=options).to_pyarrow_table()
            assert dead.num_rows == 1


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_killed_run_into_a_failing_store_continues_with_each_row_once(
    broker, tmp_path: Path, jars, place
):
    faults = by_seed(PLACES.index(place), FAILING)
    with ObjectStore() as store, HostileStore(store.endpoint, faults) as failing:
        lakes = Lakes(broker, tmp_path, jars, (store, failing), place, *CHECKPOINTS)
        dying = (sys.executable, "-m", "tests.support.cells_driver", place, "run")
        until(KILLED, *dying, broker.bootstrap, *map(str, lakes.folders))
        lakes.lose_checkpoint()
        files = [f"{each}/lab.yaml" for each in lakes.folders]
        until((0,), *COMMAND, "pipeline", "run", *files)
        lakes.check()


@pytest.mark.parametrize(("place", "checkpoint"), [*product(PLACES, CHECKPOINTS)])
@pytest.mark.long_proof(share=8)
def test_a_run_that_died_in_a_failing_store_continues_with_each_row_once(
    broker, tmp_path: Path, jars, place, checkpoint
):
    faults = by_seed(PLACES.index(place) + 100, FAILING)
    with ObjectStore() as store, HostileStore(store.endpoint, faults) as failing:
        lakes = Lakes(broker, tmp_path, jars, (store, failing), place, checkpoint)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.store_driver", place, str(lakes.folders[0])],
            env=environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            if process.stdout.readline() == "died\n" and checkpoint == "deleted":
                lakes.lose_checkpoint()
            _, said = process.communicate("go on\n", timeout=300)
        finally:
            process.kill()
        assert process.returncode == 0, said[-3000:]
        lakes.check()
