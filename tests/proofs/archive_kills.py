"""A proof: kills of broker, archive writer and archive reader while a consumer reads from earliest.

`python -m tests.proofs.archive_kills [--kills 50] [--seed 1] [--folder FOLDER]`

An idempotent producer numbers the records of two partitions. Segments are small and local
retention keeps none, so brokers delete all the time what the archive has, and the seam moves. A
consumer reads from offset 0 to the end, again and again: every number once, in order, or the proof
fails. Meanwhile one of the three processes gets SIGKILL and is started again; the next kill waits
until the consumer has read on and the seam has moved since the last one. At the end every
acknowledged record has to be readable, and `josefine archive verify` has to find nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.proofs.archived_readback import EARLIEST_LOCAL
from tests.proofs.runs import folder_of
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment, josefine
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

TOPIC, PARTITIONS = "seam", 2
WAIT_S = 240.0
SILENT = 0
PER_TICK, TICK_S = 20, 0.05


class Sent:
    """A producer's thread. `acknowledged`: the records of each partition, all from number 0 on."""

    def __init__(self, bootstrap: str, stopping: threading.Event) -> None:
        self.acknowledged = [0] * PARTITIONS
        self.failed = ""
        self._next = [0] * PARTITIONS
        self._stopping = stopping
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": SILENT,
            }
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(TICK_S):
            for partition in range(PARTITIONS):
                waiting = self._next[partition] - self.acknowledged[partition]
                for _ in range(0 if waiting > 10 * PER_TICK else PER_TICK):
                    self._send(partition)
            self._producer.poll(0)
        self._producer.flush(WAIT_S)

    def _send(self, partition: int) -> None:
        number, self._next[partition] = self._next[partition], self._next[partition] + 1

        def reported(error: object, message: object) -> None:
            if error is not None:
                self.failed = f"partition {partition}, {number}: {error}"
            self.acknowledged[partition] += 1

        value = b"%d %s" % (number, b"v" * 80)
        self._producer.produce(TOPIC, value, partition=partition, on_delivery=reported)


class Passes:
    """A consumer's thread: from offset 0 to what is acknowledged, again and again."""

    def __init__(self, bootstrap: str, sent: Sent, stopping: threading.Event) -> None:
        self.passes = self.records = 0
        self.wrong = ""
        self._bootstrap = bootstrap
        self._sent = sent
        self._stopping = stopping
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and not self.wrong:
                self.wrong = self.one_pass(self._stopping)
        except Exception as error:  # the main thread reports it
            self.wrong = f"{type(error).__name__}: {error}"

    def one_pass(self, stopping: threading.Event) -> str:
        """What is wrong; empty if nothing is."""
        ends, at = list(self._sent.acknowledged), [0] * PARTITIONS
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "seam",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": SILENT,
            }
        )
        consumer.assign([Assigned(TOPIC, each, 0) for each in range(PARTITIONS)])
        try:
            while any(each < end for each, end in zip(at, ends, strict=True)):
                if stopping.is_set():
                    return ""
                messages: list[Any] = consumer.consume(1_000, 0.2)
                for message in messages:
                    if message.error() is not None:
                        return f"the consumer got {message.error()}"
                    number, partition = int(message.value().split()[0]), message.partition()
                    if number != at[partition]:
                        return f"partition {partition}: {number} after {at[partition] - 1}"
                    at[partition] += 1
                    self.records += 1
            self.passes += 1
            return ""
        finally:
            consumer.close()


class Lab:
    """The three processes."""

    def __init__(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self._log = (folder / "processes.log").open("w")
        self.broker = BrokerProcess(
            folder / "broker",
            log__archive_reader_port=self._port,
            log__retention_check_interval_ms=200,
        )
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._words = {
            "writer": ("archive", "run", "--target-lag", "200ms"),
            "reader": ("archive", "serve", "--port", str(self._port)),
        }
        for name in self._words:
            self.start(name)

    def start(self, name: str) -> None:
        if name == "broker":
            self.broker.start()
            return
        self._processes[name] = subprocess.Popen(
            [*COMMAND, *self._words[name]], env=environment(self.broker.bootstrap),
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def kill(self, name: str) -> None:
        """SIGKILL."""
        if name == "broker":
            self.broker.kill()
            return
        self._processes[name].kill()
        self._processes[name].wait()

    def local_starts(self) -> list[int]:
        """Zeros while the broker does not answer."""
        try:
            with BlockingClient(self.broker.bootstrap) as client:
                wanted = {TopicPartition(TOPIC, each): EARLIEST_LOCAL for each in range(PARTITIONS)}
                found = client.list_offsets(wanted)
                return [each.offset for _, each in sorted(found.items())]
        except KafkaError:
            return [0] * PARTITIONS

    def close(self) -> None:
        for each in self._processes.values():
            each.terminate()
            each.wait(timeout=60)
        self.broker.close()
        self._log.close()


@contextmanager
def lab_in(folder: Path) -> Iterator[Lab]:
    lab = Lab(folder)
    try:
        yield lab
    finally:
        lab.close()


def prove(folder: Path, kills: int, seed: int) -> str:
    """The verdict: one sentence. Raises AssertionError."""
    # Nothing is stopped between the phases: the seam has to move under each kill.
    rng, stopping, killed = Random(seed), threading.Event(), Counter[str]()
    with lab_in(folder) as lab:
        configs = {
            "remote.storage.enable": "true",
            "josefine.archive.location": str(folder / "lake"),
            "retention.ms": "-1",
            "local.retention.bytes": "1",
            "segment.bytes": "16384",
        }
        with BlockingClient(lab.broker.bootstrap) as client:
            client.create_topics([NewTopic(name=TOPIC, partitions=PARTITIONS, configs=configs)])
            client.partition_count(TOPIC)
        sent = Sent(lab.broker.bootstrap, stopping)
        passes = Passes(lab.broker.bootstrap, sent, stopping)
        try:
            wait_until(lambda: all(lab.local_starts()), WAIT_S, "the first segments deleted")
            for _ in range(kills):
                starts, read = lab.local_starts(), passes.records
                name = rng.choice(["broker", "writer", "reader"])
                passes.thread.join(rng.random())  # not always at the same moment
                lab.kill(name)
                lab.start(name)
                killed[name] += 1

                def has_gone_on(starts: list[int] = starts, read: int = read) -> bool:
                    assert not passes.wrong, passes.wrong
                    moved = zip(lab.local_starts(), starts, strict=True)
                    return passes.records > read and all(now > then for now, then in moved)

                wait_until(has_gone_on, WAIT_S, f"progress after the kill of the {name}")
        finally:
            stopping.set()
            sent.thread.join(WAIT_S)
            passes.thread.join(WAIT_S)
        assert not passes.wrong, passes.wrong
        assert not sent.failed, sent.failed
        wrong = passes.one_pass(threading.Event())
        assert not wrong, wrong
        checked = josefine(lab.broker.bootstrap, "archive", "verify", "--topic", TOPIC)
        assert checked.code == 0, checked.out + checked.err
        seam = lab.local_starts()
    of = ", ".join(f"{count} of the {name}" for name, count in sorted(killed.items()))
    return (
        f"held: {kills} kills ({of}), {sum(sent.acknowledged)} records acknowledged, {sum(seam)} "
        f"of them below the seam; {passes.passes} passes from offset 0 read {passes.records}: 0 "
        "lost, 0 doubled"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    asked = parser.parse_args()
    since_s = time.monotonic()
    print(prove(folder_of(asked.folder, "seam"), asked.kills, asked.seed))
    print(f"{time.monotonic() - since_s:.0f} s (load {os.getloadavg()[0]:.0f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
