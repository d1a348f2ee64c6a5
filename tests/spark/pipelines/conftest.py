"""A real broker, a topic per test, and a pipeline over it: in this process or as a command."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import LATEST, BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from pipelines.base import failpoints
from pipelines.base.errors import RunError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.dead_letter_chain import raised
from pipelines.exactly_once.offset_chain import Tip
from pipelines.model.retry_policy import Retry
from pipelines.report.events import BatchDone
from pipelines.report.metrics import told
from pipelines.report.totals import RunResult
from pipelines.run.options import Wishes
from pipelines.run.run import run_pipeline
from pipelines.sinks.delta_log import DeltaLogReader
from pipelines.spark.files import HadoopFiles
from tests.support.broker import BrokerProcess
from tests.support.processes import ChildProcess
from tests.support.quick_spark import SPARK

ONE_SINK = pytest.mark.usefixtures("rows_only")
REPOSITORY = Path(__file__).resolve().parents[3]

PIPELINE = """
version: 1
name: ${PIPELINE:-lab}
%(spark)ssources:
  events:
    type: josefine
    bootstrap: ${BOOTSTRAP}
    %(topics)s
    start: earliest
    limit:
      rows: ${ROWS:-40}
    decode:
      value: { format: json, schema: "id INT, k STRING, v INT", on_error: %(on_error)s }
transforms:
  rows:
    inputs: [events]
    sql: >
      select value.*, topic as _topic, partition as _partition, offset as _offset from events
      where value.id >= 0
%(sinks)s
dead_letter: { type: delta, path: "${LAB}/tables/dead" }
trigger: { available_now: true }
"""

ROWS = """\
sinks:
  rows: { type: delta, inputs: [rows], path: "${LAB}/tables/rows", mode: append }
"""

SUMS = """\
  sums:
    type: delta
    inputs: [rows]
    path: ${LAB}/tables/sums
    mode: merge
    keys: [k]
    aggregate:
      records: count(*)
      values: count(v)
      v_sum: sum(v)
      v_min: min(v)
      v_max: max(v)
"""
SINKS = ROWS + SUMS

_numbers = itertools.count()

NOW_MS = time.time_ns() // 1_000_000
"""Of the records: retention by time would delete those of 1970 while a test runs."""


@pytest.fixture(scope="session")
def pipe_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("pipe-broker")) as process:
        yield process


class DiedError(Exception):
    """In place of a kill, in a run of this process."""

    def __init__(self, fail: str) -> None:
        super().__init__(f"it died at {fail}")


@contextlib.contextmanager
def failpoint(text: str) -> Iterator[None]:
    """Armed within: whatever comes of it, no later test dies there."""
    failpoints.arm(text, None)
    try:
        yield
    finally:
        failpoints.arm(None, None)


@contextlib.contextmanager
def dying(fail: str) -> Iterator[None]:
    """Within, a run of this process leaves on disk what a driver killed there leaves: whatever
    comes to a place behind that moment, of this sink or of another, ends there too."""
    dead = threading.Event()
    hit = failpoints.hit

    def die() -> None:
        dead.set()
        raise DiedError(fail)

    def come(name: str, index: int | None = None) -> None:
        if dead.is_set():
            raise DiedError(fail)
        hit(name, index)

    with pytest.MonkeyPatch.context() as patch, failpoint(fail):
        patch.setattr(failpoints, "die", die)
        patch.setattr(failpoints, "hit", come)
        yield


class Quiet:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.batches: list[BatchDone] = []
        self.retries: list[tuple[str, int, str]] = []
        self.restarts: list[tuple[str, str]] = []
        self.failures: list[tuple[str, str, int]] = []
        self.lines: list[tuple[str, str]] = []
        self.latest: dict[str, Any] = {}
        self.lag_ms: dict[str, Any] = {}

    def starting(self, what: str) -> None: ...

    def begun(self, sink: str, records_to_do: int | None) -> None: ...

    def watched(self, sink: str, begins: Any, latest: Any, lag_ms: Any = None) -> None:
        self.latest[sink] = latest
        self.lag_ms[sink] = lag_ms

    def batch(self, done: BatchDone) -> None:
        self.batches.append(done)

    def retrying(self, sink: str, batch: int, retry: Retry) -> None:
        self.retries.append((sink, batch, retry.says))

    def restarting(self, sink: str, retry: Retry) -> None:
        self.restarts.append((sink, retry.says))

    def failed(self, sink: str, line: str, left: int) -> None:
        self.failures.append((sink, line, left))

    def warned(self, sink: str, line: str) -> None:
        self.lines.append((sink, line))

    def upkeep_failed(self, sink: str, line: str) -> None:
        self.lines.append((sink, line))

    def group_failed(self, source: str, line: str) -> None:
        self.lines.append((source, line))

    def table_failed(self, line: str) -> None:
        self.lines.append(("metrics", line))


APPS = (("rows", "rows"), ("sums", "sums"), ("dead", "dead_letter.events"))
"""(table, whose chain is in its log)."""


@dataclass
class Lab:
    """One topic, one pipeline file, three tables (or one: `rows_only`); knows what went in and
    compares."""

    directory: Path
    client: BlockingClient
    bootstrap: str
    topic: str
    spark: SparkSession | None = None
    sent: int = 0
    bad: list[tuple[int, int]] = field(default_factory=list)
    apps: tuple[tuple[str, str], ...] = APPS
    reporter: Quiet = field(default_factory=Quiet)

    def write_file(self, on_error: str = "", sinks: str = "", **replace: str) -> None:
        topics = replace.pop("topics", f"topics: [{self.topic}]")
        one = self.apps == APPS[:1]
        words = {
            "spark": SPARK,
            "topics": topics,
            "on_error": on_error or ("fail" if one else "dead_letter"),
            "sinks": sinks or (ROWS if one else SINKS),
        }
        text = PIPELINE % words
        for old, new in replace.items():
            assert old in text
            text = text.replace(old, new)
        self.file.write_text(text)

    @property
    def file(self) -> Path:
        return self.directory / "lab.yaml"

    def table(self, name: str) -> str:
        return str(self.directory / "tables" / name)

    # -- input ---------------------------------------------------------------------------------

    def produce(self, count: int, partitions: int = 2, topic: str | None = None) -> None:
        """Events with ids in a row, a third of them without `v`, in all partitions."""
        records: dict[int, list[Record]] = {p: [] for p in range(partitions)}
        for n in range(self.sent, self.sent + count):
            event = {"id": n, "k": f"k{n % 7}", "v": None if n % 3 == 0 else n}
            records[n % partitions].append(Record(None, json.dumps(event).encode(), (), NOW_MS + n))
        self.sent += count
        for partition, some in records.items():
            if some:
                self.append(partition, some, topic)

    def append(self, partition: int, records: list[Record], topic: str | None = None) -> None:
        batch = build_batch(records)
        self.client.produce({TopicPartition(topic or self.topic, partition): batch})

    def produce_raw(self, partition: int, *values: bytes | None) -> None:
        self.append(partition, [Record(b"key", value, (), NOW_MS) for value in values])

    def topic_ends(self, topic: str | None = None) -> dict[tuple[str, int], int]:
        name = topic or self.topic
        count = self.client.partition_count(name)
        wanted = {TopicPartition(name, p): LATEST for p in range(count)}
        listed = self.client.list_offsets(wanted)
        return {(tp.topic, tp.partition): one.offset for tp, one in listed.items()}

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        wanted = [TopicPartition(*partition) for partition in self.topic_ends()]
        found = self.client.committed_offsets(group, wanted)
        return {(tp.topic, tp.partition): offset for tp, offset in found.items()}

    # -- runs ----------------------------------------------------------------------------------

    def environment(self, rows: int, **more: str) -> dict[str, str]:
        own = {"LAB": str(self.directory), "BOOTSTRAP": self.bootstrap, "ROWS": str(rows)}
        return {**os.environ, **own, **more}

    def run(self, rows: int = 1000, trust: Trust = Trust.NEITHER, **options: Any) -> RunResult:
        """Run to the end in this process."""
        assert self.spark is not None
        pipeline = read_pipeline(self.file, self.environment(rows))
        options.setdefault("wishes", Wishes(trust=trust))
        with told(pipeline, self.reporter) as reporter:
            return run_pipeline(self.spark, pipeline, reporter, **options)

    def die(self, fail: str, rows: int) -> None:
        """Run in this process to a failpoint."""
        with dying(fail), pytest.raises(RunError, match="it died at"):
            self.run(rows)

    def command(
        self, *arguments: str, rows: int = 40, fail: str = "", verb: str = "run"
    ) -> ChildProcess:
        """`josefine pipeline run`, or another verb, as its own process group."""
        more = {"JOSEFINE_FAIL": fail} if fail else {}
        environment = self.environment(rows, PYTHONPATH=str(REPOSITORY), **more)
        return ChildProcess(
            [sys.executable, "-m", "josefine_cli.main", "pipeline", *verb.split(), str(self.file),
             "--json", *arguments],
            env=environment, cwd=self.directory, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def finish(self, process: subprocess.Popen[str], timeout_s: float = 300) -> tuple[int, str]:
        """(exit code, stderr). The whole group is gone afterwards."""
        try:
            _, stderr = process.communicate(timeout=timeout_s)
        finally:
            self.kill(process)
        return process.returncode, stderr

    def kill(self, process: subprocess.Popen[str]) -> None:
        """kill -9 of the driver and, as they are one group, of its JVM and workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def checkpoint(self, sink: str) -> Path:
        return self.directory / "checkpoints" / f"lab.{sink}"

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.directory / "checkpoints", ignore_errors=True)

    # -- outcome -------------------------------------------------------------------------------

    def check(self) -> None:
        """Each event once in the append table, the sums right, the chains at the topic's end."""
        rows = self.arrow("rows")
        ids = sorted(rows["id"].to_pylist())
        assert len(ids) == self.sent, f"{len(ids)} rows of {self.sent} events"
        assert ids == list(range(self.sent))
        offsets = set(zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True))
        assert len(offsets) == self.sent
        if self.apps == APPS:
            sums = sorted(self.arrow("sums").to_pylist(), key=lambda row: row["k"])
            assert sums == expected_sums(self.sent)
            dead = self.arrow("dead").to_pylist()
            assert sorted((row["partition"], row["offset"]) for row in dead) == sorted(self.bad)
        for name, app in self.apps:
            assert self.chain_ends(name, app) == self.topic_ends()

    def arrow(self, name: str) -> Any:
        """The table through a reader that is not Spark."""
        from deltalake import DeltaTable

        return DeltaTable(self.table(name)).to_pyarrow_table()

    def settings(self, name: str) -> dict[str, str]:
        """The table's own settings, by a reader that is not Spark."""
        from deltalake import DeltaTable

        return dict(DeltaTable(self.table(name)).metadata().configuration)

    def chain_ends(self, name: str, app: str) -> dict[tuple[str, int], int]:
        """The offsets in the Delta log, read without Spark; of dead letters' where the chain stands
        by what the sinks' commits say of them, too."""
        tip = self._tip(name, app)
        if name == "dead":
            for sink in Path(self.table("dead")).parent.iterdir():
                said = self._tip(sink.name, sink.name)
                tip = raised(tip, said, self.table("dead")) if isinstance(said, Tip) else tip
        return dict(tip.reached.ends)

    def _tip(self, name: str, app: str) -> Any:
        reader = DeltaLogReader(LocalFiles(), self.table(name), f"josefine:lab:{app}")
        return reader.last_tip()[0]

    def history(self, name: str) -> list[Any]:
        """Newest first: (txn version, metadata) of the sink's own commits."""
        app = {"dead": "dead_letter.events"}.get(name, name)
        reader = DeltaLogReader(LocalFiles(), self.table(name), f"josefine:lab:{app}")
        entries = (reader.entry(version) for version in reversed(reader.versions()))
        return [e for e in entries if e is not None and e.txn_version is not None]


def expected_sums(count: int) -> list[dict[str, Any]]:
    sums = []
    for k in range(min(7, count)):
        ids = range(k, count, 7)
        values = [n for n in ids if n % 3 != 0]
        sums.append(
            {
                "k": f"k{k}",
                "records": len(ids),
                "values": len(values),
                "v_sum": sum(values) if values else None,
                "v_min": min(values, default=None),
                "v_max": max(values, default=None),
            }
        )
    return sums


class LocalFiles:
    """Enough of a file system for the log reader, without Spark."""

    def read_text(self, path: str) -> str | None:
        file = Path(path)
        return file.read_text() if file.exists() else None

    def names(self, folder: str) -> list[str]:
        return os.listdir(folder) if Path(folder).is_dir() else []


@pytest.fixture
def lab_without_spark(pipe_broker: BrokerProcess, tmp_path: Path) -> Iterator[Lab]:
    """For tests that start their own drivers."""
    with BlockingClient(pipe_broker.bootstrap) as client:
        topic = f"lab-{next(_numbers)}"
        client.create_topics([NewTopic(topic, 2)])
        lab = Lab(tmp_path, client, pipe_broker.bootstrap, topic)
        lab.write_file()
        yield lab


@pytest.fixture
def lab(lab_without_spark: Lab, spark: SparkSession) -> Lab:
    lab_without_spark.spark = spark
    return lab_without_spark


@pytest.fixture
def rows_only(lab: Lab) -> None:
    """Of the lab only the append sink, and no dead letters: for what is each sink's own affair, at
    a third of the commits."""
    lab.apps = APPS[:1]
    lab.write_file()


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)
