"""A copy that Spark makes of a topic, and somebody who is killed at each arrow of its protocol.

    with Life(cluster, tmp_path, Copy()) as life:
        life.passes("commit:2", Victim.LEADER)

Every arrow gets rows of its own, committed ones and aborted ones in turn; whoever was killed comes
back as an operator would bring it back, and the arrow is passed when a read_committed reader has
met each committed row once, and nothing is left open.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.client.transaction_admin import open_transactions
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_spark.write.coordinator_store import PARTITIONS, TOPIC
from josefine_spark.write.state import driver_id
from tests.support.arrows import FOLDER
from tests.support.cluster import Cluster
from tests.support.committed import committed_records
from tests.support.held_driver import REPOSITORY
from tests.support.spark_cluster import SparkCluster, kill, parent_of
from tests.support.waiting import wait_until

START_S, ARROW_S = 300.0, 240.0
ROWS = 24
"""Of an arrow; 300 B each, so that a task has more than one batch of 1 KiB."""
SOURCE, TARGET = "source", "target"


class Victim(Enum):
    """Who dies."""

    DRIVER = "driver"
    EXECUTOR = "executor"
    WORKER = "python worker"
    LEADER = "leader of the target's partition"
    COORDINATOR = "coordinator of the transaction that is next"
    RECORD = "leader of the sink's record"
    SOURCE = "leader of the source's partition"
    GROUP = "coordinator of the source's group"


class Job(Protocol):
    """What is run, and where its rows are."""

    sink_id: str

    def command(self, life: Life) -> list[str]:
        """Of `tests.support.held_driver`; prepares its files."""
        ...

    def seen(self, life: Life) -> list[int]:
        """The rows there, in order of their number."""
        ...


@dataclass
class Copy:
    """`readStream` to `writeStream`, topic to topic."""

    sink_id: str = TARGET

    def command(self, life: Life) -> list[str]:
        checkpoint = str(life.directory / "checkpoint")
        return ["copy", life.master, life.cluster.bootstrap, SOURCE, TARGET, checkpoint]

    def seen(self, life: Life) -> list[int]:
        return rows_of(life.client, TARGET)


PIPELINE = """\
version: 1
name: held
spark:
  master: "{master}"
  conf: {conf}
  checkpoint: {directory}/checkpoints
sources:
  events:
    type: josefine
    bootstrap: "{bootstrap}"
    topics: [source]
    start: earliest
    isolation: read_committed
    commit_group: held
    decode: {{ value: {{ format: json, schema: "id INT, text STRING", on_error: fail }} }}
transforms:
  rows: {{ inputs: [events], sql: "select value.* from events" }}
sinks:
  out: {sink}
trigger: {{ every: 100ms }}
"""


@dataclass
class _Pipeline:
    sink: str
    sink_id: str = "held.out.target"

    def command(self, life: Life) -> list[str]:
        from tests.support.held_driver import CONF

        file = life.directory / "held.yaml"
        conf = {**CONF, f"spark.executorEnv.{FOLDER}": str(life.arrows)}
        text = PIPELINE.format(
            master=life.master, conf=json.dumps(conf), directory=life.directory,
            bootstrap=life.cluster.bootstrap, sink=self.sink.format(directory=life.directory),
        )  # fmt: skip
        file.write_text(text)
        return ["pipeline", str(file)]


class IntoTopic(_Pipeline):
    """A pipeline's topic sink."""

    def __init__(self) -> None:
        super().__init__("{{ type: josefine, inputs: [rows], topic: target, key: id }}")

    def seen(self, life: Life) -> list[int]:
        return sorted(int(each.key or b"") for each in committed_records(life.client, TARGET))


class IntoDelta(_Pipeline):
    """A pipeline's table."""

    def __init__(self) -> None:
        super().__init__(
            '{{ type: delta, inputs: [rows], path: "{directory}/table", mode: append }}'
        )

    def seen(self, life: Life) -> list[int]:
        try:
            table = DeltaTable(life.directory / "table")
        except TableNotFoundError:
            return []
        found: list[int] = table.to_pyarrow_table()["id"].to_pylist()
        return sorted(found)


def rows_of(client: BlockingClient, topic: str) -> list[int]:
    """The numbers that a read_committed reader is given, in order."""
    found = (json.loads(each.value or b"") for each in committed_records(client, topic))
    return sorted(each["id"] for each in found)


@dataclass
class Life:
    """One job with its brokers. Mutable."""

    cluster: Cluster
    directory: Path
    job: Job
    spark: SparkCluster | None = None
    sent: int = 0
    ended: list[str] = field(default_factory=list)
    """Drivers that nobody killed: at which arrow, and what they said last."""
    driver: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Life:
        self.arrows.mkdir()
        self.client = BlockingClient(self.cluster.bootstrap)
        try:
            topics = [NewTopic(name, 2, 3) for name in (SOURCE, TARGET)]
            self.client.create_topics(topics)
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._kill_driver()
        self.client.close()

    @property
    def arrows(self) -> Path:
        return self.directory / "arrows"

    @property
    def master(self) -> str:
        return self.spark.url if self.spark else "local[2,4]"

    @property
    def log(self) -> str:
        """What the drivers said."""
        file = self.directory / "driver.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def begin(self) -> None:
        """A batch that nobody disturbs: what it makes is there for those that follow."""
        self._produce()
        self._wait_whole("the first batch")

    # -- an arrow

    def passes(self, arrow: str, victim: Victim) -> None:
        """Somebody is killed at it, and each row is there once all the same. Once in a life."""
        mark = self.arrows / f"{arrow}.armed"
        mark.touch()
        self._produce()
        held = mark.with_suffix(".held")
        wait_until(lambda: held.exists() or self._gone(), START_S, f"{arrow}: {self.log[-2000:]}")
        assert held.exists(), f"{arrow}: the driver ended: {self.log[-3000:]}"
        self._strike(victim, json.loads(held.read_text()))
        mark.with_suffix(".go").touch()
        self._wait_whole(arrow)
        self._mend()

    def _strike(self, victim: Victim, held: Mapping[str, Any]) -> None:
        group_topic = "__consumer_offsets"
        match victim:
            case Victim.DRIVER:
                self._kill_driver()
                self._start()
            case Victim.EXECUTOR:
                kill(self._executor_of(held["pid"]))
            case Victim.WORKER:
                kill(held["pid"])
            case Victim.LEADER:
                self.cluster.kill(self.cluster.leader_of(TARGET, 0))
            case Victim.SOURCE:
                self.cluster.kill(self.cluster.leader_of(SOURCE, 0))
            case Victim.RECORD:
                index = partition_for_key(self.job.sink_id.encode(), PARTITIONS)
                self.cluster.kill(self.cluster.leader_of(TOPIC, index))
            case Victim.COORDINATOR:
                name = next(iter(held["ids"]), driver_id(self.job.sink_id))
                self.cluster.kill(self._coordinator("__transaction_state", name))
            case Victim.GROUP:
                self.cluster.kill(self._coordinator(group_topic, "held"))

    def _coordinator(self, topic: str, name: str) -> int:
        count = self.client.partition_count(topic)
        return self.cluster.leader_of(topic, coordinator_partition(name, count))

    def _executor_of(self, worker: int) -> int:
        """The executor of this worker; of a process of the driver's, any."""
        found = self._executors()
        above = parent_of(parent_of(worker))
        return above if above in found else found[0]

    def _executors(self) -> list[int]:
        assert self.spark is not None
        found = []
        for each in Path("/proc").iterdir():
            with suppress(OSError):
                command = (each / "cmdline").read_bytes() if each.name.isdigit() else b""
                is_executor = b"CoarseGrainedExecutorBackend" in command
                if is_executor and str(self.spark.directory) in os.readlink(each / "cwd"):
                    found.append(int(each.name))
        return sorted(found)

    def _produce(self) -> None:
        """Rows that count, and before and behind them rows of transactions that are aborted."""
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": "the-test"}
        )
        producer.init_transactions(60)
        for is_counted in (False, True, False):
            producer.begin_transaction()
            for number in range(self.sent, self.sent + ROWS):
                value = {"id": number if is_counted else -1, "text": "x" * 300}
                producer.produce(SOURCE, json.dumps(value), partition=number % 2)
            producer.flush(60)
            (producer.commit_transaction if is_counted else producer.abort_transaction)(60)
        self.sent += ROWS

    def _wait_whole(self, arrow: str) -> None:
        wanted = list(range(self.sent))

        def whole() -> bool:
            if self._gone():
                self.ended.append(f"{arrow}: {self.log[-1500:]}")
                self._start()
            with suppress(KafkaError, OSError):
                return len(self.job.seen(self)) >= self.sent and not self._left_open()
            return False

        try:
            wait_until(whole, ARROW_S, f"{arrow}: every row")
        except AssertionError as error:
            with suppress(KafkaError, OSError):
                missing = sorted({*wanted} - {*self.job.seen(self)})
                raise AssertionError(
                    f"{error}; missing {missing}, open {self._left_open()}: {self.log[-3000:]}"
                ) from None
            raise
        assert self.job.seen(self) == wanted, arrow

    def _left_open(self) -> list[Any]:
        return self.client.run(lambda s, t, d: open_transactions(s, [TARGET], t, d))

    def _mend(self) -> None:
        for id_ in self.cluster.voters:
            if not self.cluster.broker(id_).alive:
                self.cluster.restart(id_)
        self.cluster.wait_settled()

    # -- the driver

    def _start(self) -> None:
        with (self.directory / "driver.log").open("ab") as log:
            self.driver = subprocess.Popen(
                [sys.executable, "-m", "tests.support.held_driver", *self.job.command(self)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                env={
                    **os.environ, "PYTHONPATH": str(REPOSITORY), FOLDER: str(self.arrows),
                    "PYSPARK_PYTHON": sys.executable,
                },
                start_new_session=True,
            )  # fmt: skip

    def _gone(self) -> bool:
        return self.driver is None or self.driver.poll() is not None

    def _kill_driver(self) -> None:
        """With its JVM, and what runs there."""
        if self.driver is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()
