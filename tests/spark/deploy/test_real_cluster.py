"""`format("josefine")` on executors in processes of their own: how the package gets to them, and
what an executor's death costs. By hand: `pytest -m slow tests/spark/deploy`.

The interpreters here are not the tests' own: what they can import is what was sent or installed.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import LATEST, BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.fixtures import broker_fixture
from tests.support.shipping import build, install, linked_environment, wheel_of
from tests.support.spark_cluster import SparkCluster, kill, parent_of, submit
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

JOB = Path(__file__).with_name("job.py")
ROWS = 20_000
PARTITIONS = 2
TIMEOUT_S = 600.0
_numbers = itertools.count()


@dataclass
class Shipped:
    """What a user has in hand."""

    bare: Path
    """A Python with all packages that we need, and without us."""
    zips: list[Path]
    """Our packages, for --py-files: the client's, and last the connector's."""
    environment: Path
    """The folder of an environment that we are installed in."""
    archive: Path
    """The same, packed for --archives."""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    directory = tmp_path_factory.mktemp("shipped")
    (directory / "tree").mkdir()
    built = build(directory / "tree")
    wheels = [wheel_of(built, name) for name in ("josefine-client", "josefine-spark")]
    bare = linked_environment(directory / "bare")
    # Spark takes .zip, .egg and .jar, and no .whl
    zips = [directory / "client.zip", directory / "josefine.zip"]
    for wheel, zipped in zip(wheels, zips, strict=True):
        shutil.copy(wheel, zipped)
    environment = directory / "environment"
    linked_environment(environment)
    install(environment, *map(str, wheels))
    archive = directory / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(environment, ".")
    return Shipped(bare=bare, zips=zips, environment=environment, archive=archive)


broker = broker_fixture()


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture
def topics(broker: BrokerProcess) -> list[str]:
    """The arguments of the job: a broker, a topic with ROWS records, and an empty one."""
    number = next(_numbers)
    names = [f"in-{number}", f"out-{number}"]
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name, PARTITIONS) for name in names])
        for number in range(0, ROWS, 1000):
            records = [Record(b"k", b"%d" % n) for n in range(number, number + 1000)]
            tp = TopicPartition(names[0], number // 1000 % PARTITIONS)
            client.produce({tp: build_batch(records)})
    return [broker.bootstrap, *names]


def written(topics: list[str]) -> int:
    with BlockingClient(topics[0]) as client:
        wanted = {TopicPartition(topics[2], n): LATEST for n in range(PARTITIONS)}
        return sum(one.offset for one in client.list_offsets(wanted).values())


def facts_of(job: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = job.communicate(timeout=TIMEOUT_S)
    assert job.returncode == 0, err[max(err.find("Traceback"), 0) :][:6000]
    facts: dict[str, Any] = json.loads(out.splitlines()[-1])
    return facts


def assert_all_rows(facts: dict[str, Any], topics: list[str]) -> None:
    assert facts["batch"] == [ROWS, ROWS]
    assert facts["table"] == [ROWS, ROWS]
    assert written(topics) == ROWS


def run_with_zip(master: str, shipped: Shipped, topics: list[str], directory: Path) -> None:
    python = str(shipped.bare)
    job = submit(
        JOB, [*topics, str(directory), "--session=registered"], conf={}, cwd=directory,
        master=master, py_files=",".join(map(str, shipped.zips)),
        env_PYSPARK_PYTHON=python, env_PYSPARK_DRIVER_PYTHON=python,
    )  # fmt: skip

    facts = facts_of(job)

    assert_all_rows(facts, topics)
    # Each executor has a copy of its own.
    assert all(Path(file).parents[1].name == "josefine.zip" for _, file in facts["seen"])
    assert all(not file.startswith(str(shipped.zips[-1])) for _, file in facts["seen"])
    assert len(facts["seen"]) == 2


def test_zip_of_the_package_reaches_the_executors_of_a_standalone_cluster(
    spark_cluster: SparkCluster, shipped: Shipped, topics: list[str], tmp_path: Path
) -> None:
    run_with_zip(spark_cluster.url, shipped, topics, tmp_path)


def test_zip_of_the_package_reaches_the_executors_of_a_local_cluster(
    shipped: Shipped, topics: list[str], tmp_path: Path
) -> None:
    run_with_zip("local-cluster[2,1,1024]", shipped, topics, tmp_path)


def test_packed_environment_runs_on_the_executors(
    spark_cluster: SparkCluster, shipped: Shipped, topics: list[str], tmp_path: Path
) -> None:
    """The driver has it unpacked beside the job, under the name that the executors have it by."""
    (tmp_path / "environment").symlink_to(shipped.environment)
    python = "./environment/bin/python"
    job = submit(
        JOB, [*topics, str(tmp_path)], conf={}, cwd=tmp_path, master=spark_cluster.url,
        archives=f"{shipped.archive}#environment",
        env_PYSPARK_PYTHON=python, env_PYSPARK_DRIVER_PYTHON=python,
    )  # fmt: skip

    facts = facts_of(job)

    assert_all_rows(facts, topics)
    work = str(spark_cluster.directory)
    assert len(facts["seen"]) == 2
    assert all(python.startswith(work) for python, _ in facts["seen"])


def test_death_of_an_executor_in_the_middle_of_a_task_costs_no_row_and_doubles_none(
    spark_cluster: SparkCluster, shipped: Shipped, topics: list[str], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    python = str(shipped.environment / "bin" / "python")
    job = submit(
        JOB, [*topics, str(tmp_path), f"--hold={tmp_path}"], conf={}, cwd=tmp_path,
        master=spark_cluster.url, env_PYSPARK_PYTHON=python, env_PYSPARK_DRIVER_PYTHON=python,
    )  # fmt: skip

    try:
        wait_until(
            lambda: len(list(tmp_path.glob("held-*[0-9]"))) >= 2 or job.poll() is not None,
            TIMEOUT_S,
            "a task held on each executor",
        )
        held = sorted(tmp_path.glob("held-*[0-9]"))
        assert len(held) >= 2, job.communicate()[1][-6000:]
        executors = {parent_of(int(path.read_text())) for path in held}
        assert len(executors) == 2
        kill(min(executors))
        go = os.open(tmp_path / "go", os.O_RDWR)  # as long as it is open, nobody waits
        try:
            facts = facts_of(job)
        finally:
            os.close(go)
    finally:
        job.kill()

    assert_all_rows(facts, topics)
