"""A broker with the demo's flights in its topics, and jobs over them: conf/pipelines/flights.yaml
or parts of it, and the job written by hand. What a job did is read from its Delta logs, by one who
needs neither.
"""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from rich.console import Console

from josefine_cli.dev.demo_check import open_table
from josefine_cli.dev.demo_flights import data_set
from josefine_cli.dev.demo_produce import publish
from josefine_spark.sessions.class_data_sharing import OPTIONS
from tests.bench import whole_runs
from tests.bench.brokers import create_topic
from tests.bench.peer_jars import peer_jars
from tests.bench.whole_runs import Ran
from tests.support.broker import REPOSITORY, BrokerProcess

CONF = REPOSITORY / "conf" / "pipelines"
PARTITIONS = 4
SINKS = ("flights", "delays")
BATCH = 120_000
OURS, BY_HAND = "josefine", "by_hand"


class Lab:
    """One broker, a folder for each run. Mutable: the topics that are filled, the runs' number."""

    def __init__(self, directory: Path, broker: BrokerProcess) -> None:
        self.directory = directory
        self.bootstrap = broker.bootstrap
        self._filled: set[str] = set()
        self._number = 0

    def topic(self, years: int = 1) -> str:
        """A topic that has the year's flights so many times."""
        name = f"flights{years}"
        if name not in self._filled:
            create_topic(self.bootstrap, name, PARTITIONS)
            for _ in range(years):
                publish(self.bootstrap, name, data_set(), Console(quiet=True))
            self._filled.add(name)
        return name

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Of one run, removed behind it."""
        self._number += 1
        folder = self.directory / f"run-{self._number}"
        folder.mkdir()
        yield folder
        shutil.rmtree(folder)

    def ours(
        self,
        folder: Path,
        topic: str,
        sinks: Sequence[str] = SINKS,
        rows: int = BATCH,
        on_error: str = "dead_letter",
        *,
        warm: bool = False,
    ) -> Ran:
        """`warm`: with the JVM's own options, as a run of hours has them. The shipped file's are
        those of a short one, without the optimizing compiler."""
        file = write_pipeline(folder, topic, sinks, on_error, warm=warm)
        command = [sys.executable, "-m", "josefine_cli.main", "pipeline", "run", str(file)]
        return whole_runs.run([*command, "--json"], folder, self.environment(folder, rows))

    def environment(self, folder: Path, rows: int = BATCH) -> dict[str, str]:
        return {
            "BOOTSTRAP": self.bootstrap,
            "DEMO_DIR": str(folder),
            "ROWS": str(rows),
            "PYTHONPATH": str(REPOSITORY),
        }

    def by_hand(
        self,
        folder: Path,
        topic: str,
        sinks: Sequence[str] = SINKS,
        rows: int = BATCH,
        *,
        warm: bool = False,
    ) -> Ran:
        """`warm` as in `ours`. Raises NoJarsError."""
        from josefine_spark.sessions.session import delta_conf

        jars = ",".join([delta_conf({})["spark.jars"], *peer_jars()])
        command = [sys.executable, "-m", "tests.bench.pipelines_by_hand", self.bootstrap, topic]
        command += [str(folder), str(rows), jars, "warm" if warm else "short", *sinks]
        return whole_runs.run(command, folder, {"PYTHONPATH": str(REPOSITORY)})


@contextmanager
def lab() -> Iterator[Lab]:
    with (
        TemporaryDirectory(prefix="josefine-bench-") as directory,
        BrokerProcess(Path(directory) / "broker") as broker,
    ):
        yield Lab(Path(directory), broker)


def write_pipeline(
    folder: Path,
    topic: str,
    sinks: Sequence[str],
    on_error: str,
    trigger: str = "",
    *,
    warm: bool = False,
) -> Path:
    """The shipped file over another topic, with some of its sinks; `trigger`: every so often;
    `warm`: as in `Lab.ours`."""
    said: dict[str, Any] = yaml.safe_load((CONF / "flights.yaml").read_text())
    del said["tests"]
    if warm:
        del said["spark"]["conf"][OPTIONS]
    source = said["sources"]["events"]
    source["topics"] = [topic]
    source["decode"]["value"] |= {"schema": str(CONF / "flights.ddl"), "on_error": on_error}
    said["sinks"] = {name: said["sinks"][name] for name in sinks}
    if on_error != "dead_letter":
        del said["dead_letter"]
    if trigger:
        said["trigger"] = {"every": trigger}
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(said, sort_keys=False))
    return file


def commits(folder: Path, sink: str) -> list[Path]:
    """The files of all commits to a sink's table, in order; none where there is no table."""
    log = folder / "tables" / sink / "_delta_log"
    return sorted(log.glob("*.json")) if log.is_dir() else []


def commit_times(folder: Path, sink: str) -> list[float]:
    """When each commit that brought rows into a sink's table was made, since 1970."""
    files = commits(folder, sink)
    return [file.stat().st_mtime for file in files if '"add":{' in file.read_text()]


def check(folder: Path, events: int, sinks: Sequence[str] = SINKS) -> None:
    """RuntimeError unless each table has all events once."""
    for sink in sinks:
        rows = open_table(folder / "tables" / sink)
        if sink.startswith("flights"):
            found = rows.count_rows()
        else:
            found = sum(rows.to_table(columns=["flights"])["flights"].to_pylist())
        if found != events:
            raise RuntimeError(f"{folder.name}: {sink} has {found} of {events} events")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def told(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)
