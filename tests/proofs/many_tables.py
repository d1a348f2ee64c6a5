"""A long proof: one sink fills a table for each topic, exactly once, at the price of one table.

`python -m tests.proofs.many_tables [--small] [--seed N] [--folder FOLDER]
[--topics N] [--records N] [--kills N] [--kill-seconds S]`

One broker has 200 topics with 10,000 records each. A pipeline with `path: tables/{topic}` is killed
20 times while it writes, with all of its processes; the checkpoint is deleted after half of the
kills. The moment is a number of commits, from one to those of a batch: by the clock, a busy machine
would kill most runs before they write. Then an undisturbed run reads the rest. Each table must have
each record once, as a reader that is not Spark finds it. After that the same records are read twice
without a kill, into a family of tables and into one table: the ratio of their times, by the clock
and of CPU, and the largest resident memory of the driver with its JVM. `--small`: 8 topics, 200
records each, 2 kills. `--kill-seconds S`: no kill later than that, so that a busy machine comes to
an end; the result has the number of kills that were.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import NewTopic
from josefine_broker.client.io_blocking import BlockingClient
from tests.proofs.runs import Lab, folder_of, kill, produce, used_by
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

BATCH = 1_000
RATIO_MAX, MEMORY_MAX_GB = 1.5, 4.0
START_S = 1_200
"""Until the commits after which a run is killed; a machine with other work on it is no fault."""

FILE = """
version: 1
name: proof
spark:
  master: "local[2]"
  conf: { spark.sql.shuffle.partitions: 2, spark.driver.memory: 2g%(soon)s }
  checkpoint: ${LAB}/checkpoints/%(name)s
sources:
  events:
    type: josefine
    bootstrap: ${BOOTSTRAP}
    pattern: "t-.*"
    limit: { rows: %(rows)d }
    decode: { value: { format: json, schema: "id INT, k STRING", on_error: fail } }
transforms:
  rows: { inputs: [events], sql: "select value.*, topic, partition, offset from events" }
sinks:
  out: { type: delta, inputs: [rows], path: "${LAB}/%(path)s", mode: append }
trigger: { available_now: true }
"""


SOON = ", spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of runs that are killed: most of their time is a start."""


class Proof(Lab):
    """One broker, its topics, and the pipelines over them."""

    def __init__(self, folder: Path, bootstrap: str, seed: int, topics: int, records: int) -> None:
        super().__init__(folder=folder, bootstrap=bootstrap)
        self.random = Random(seed)
        self.topics = [f"t-{n}" for n in range(topics)]
        self.records = records
        self.peak_gb = 0.0

    def produce(self) -> None:
        with BlockingClient(self.bootstrap) as client:
            client.create_topics([NewTopic(topic, 1) for topic in self.topics])
            for start in range(0, self.records, BATCH):
                ids = range(start, min(start + BATCH, self.records))
                values = [json.dumps({"id": n, "k": f"k{n % 7}"}).encode() for n in ids]
                for topic in self.topics:
                    produce(client, TopicPartition(topic, 0), values)

    def file(self, name: str, path: str, rows: int, soon: str = "") -> Path:
        file = self.folder / f"{name}.yaml"
        file.write_text(FILE % {"name": name, "path": path, "rows": rows, "soon": soon})
        return file

    def killed(self, file: Path) -> bool:
        """A run that dies after a random number of commits, at most those of a batch; False if it
        ended before."""
        after = self.commits() + self.random.randint(1, len(self.topics))
        process = self.start("run", str(file), "--json")
        try:
            wait_until(
                lambda: self.commits() >= after or process.poll() is not None, START_S, "work"
            )
            was_alive = process.poll() is None
        finally:
            kill(process)
        if self.random.random() < 0.5:
            shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
        return was_alive

    def timed(self, file: Path) -> tuple[float, float]:
        """An undisturbed run; its seconds, and those of CPU."""
        begun_s, process = time.monotonic(), self.start("run", str(file), "--json")
        cpu_s = 0.0
        try:
            while process.poll() is None:
                used = used_by(process.pid)
                self.peak_gb = max(self.peak_gb, used.gigabytes)
                cpu_s = max(cpu_s, used.cpu_s + used.ended_cpu_s)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.5)
        finally:
            kill(process)
        assert process.returncode == 0, f"exit {process.returncode}, see {self.folder}/runs.log"
        return time.monotonic() - begun_s, cpu_s

    def differences(self, folder: str) -> list[str]:
        """The tables that do not have each record once."""
        wrong, wanted = [], list(range(self.records))
        for topic in self.topics:
            found = DeltaTable(str(self.folder / folder / topic)).to_pyarrow_table(columns=["id"])
            ids = sorted(found["id"].to_pylist())
            if ids != wanted:
                lost, doubled = len({*wanted} - {*ids}), len(ids) - len({*ids})
                wrong.append(f"{topic}: {lost} lost, {doubled} doubled")
        return wrong


def prove(
    folder: Path, seed: int, topics: int, records: int, kills: int, kill_seconds: float
) -> int:
    with BrokerProcess(folder / "broker") as broker:
        proof = Proof(folder, broker.bootstrap, seed, topics, records)
        proof.produce()
        # More batches than kills, which use at most one each.
        rows = max(topics, topics * records // (kills + 2))
        many = proof.file("killed", "tables/{topic}", rows, SOON)
        wrong, begun_s, done = [], time.monotonic(), 0
        while done < kills and time.monotonic() < begun_s + kill_seconds and proof.killed(many):
            done += 1
            since_s = time.monotonic() - begun_s
            print(f"kill {done}: {proof.commits()} commits, {since_s:.0f} s", flush=True)
        if kills:
            proof.timed(many)
            wrong = proof.differences("tables")
        every = topics * records
        proof.peak_gb = 0.0
        many_s, many_cpu_s = proof.timed(proof.file("many", "again/{topic}", every))
        peak_gb = proof.peak_gb
        one_s, one_cpu_s = proof.timed(proof.file("one", "one", every))
        wrong += proof.differences("again")
    ratio = many_s / one_s
    print(
        f"{'NOT EXACT: ' + '; '.join(wrong[:5]) if wrong else 'exact'}: {topics} topics, "
        f"{records} records each, {done} kills, seed {seed}; {many_s:.1f} s into {topics} tables, "
        f"{one_s:.1f} s into one: {ratio:.2f} times (at most {RATIO_MAX}); CPU "
        f"{many_cpu_s:.1f} s and {one_cpu_s:.1f} s: {many_cpu_s / one_cpu_s:.2f} times; "
        f"driver {peak_gb:.1f} GB (at most {MEMORY_MAX_GB:.0f})"
    )
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    parser.add_argument("--topics", type=int)
    parser.add_argument("--records", type=int, help="of each topic")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--kill-seconds", type=float, default=float("inf"))
    asked = parser.parse_args()
    folder = folder_of(asked.folder, "many")
    topics, records, kills = (8, 200, 2) if asked.small else (200, 10_000, 20)
    topics, records = asked.topics or topics, asked.records or records
    kills = kills if asked.kills is None else asked.kills
    return prove(folder, asked.seed, topics, records, kills, asked.kill_seconds)


if __name__ == "__main__":
    sys.exit(main())
