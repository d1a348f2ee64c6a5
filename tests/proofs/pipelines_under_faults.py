"""A long proof: pipelines under the faults of production stay exact. Prints one line of verdict.

`python -m tests.proofs.pipelines_under_faults [--rounds 12] [--seed N] [--folder FOLDER]`

Three brokers and one pipeline with five sinks: append, upsert, merge and scd2 into Delta tables
and a topic. Each round produces events and dead letters, starts a run, kills a broker with SIGKILL
and then the driver, both while the run writes, and deletes the checkpoints in half of the rounds.
OPTIMIZE and VACUUM run between the batches. At the end an undisturbed run reads the rest, the dead
letters that a wider check now takes are replayed, and tables and topic are compared with the
events, by readers that are not Spark. The seed decides every choice; the moments are real time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import NewTopic
from josefine_broker.client.io_blocking import BlockingClient
from tests.proofs.runs import SPARK, Lab, folder_of, kill, produce
from tests.support.cluster import Cluster
from tests.support.committed import committed_records
from tests.support.waiting import wait_until

EVENTS, OUT = "events", "out"
KEYS = 7
STALL_S = 300
"""An undisturbed run has failed when no sink commits for so long: a loaded machine is no fault."""

FILE = (
    SPARK
    + """
sources:
  events:
    type: josefine
    bootstrap: ${BOOTSTRAP}
    topics: [events]
    start: earliest
    limit: { rows: "${ROWS:-40}" }
    decode:
      value: { format: json, schema: "id INT, k STRING, held BOOLEAN", on_error: dead_letter }
transforms:
  rows:
    inputs: [events]
    sql: select value.*, topic, partition, offset from events
checks:
  free: { on: rows, expr: "%s", action: dead_letter }
x-delta: &delta
  type: delta
  inputs: [rows]
  optimize: { every: 3 batches }
  vacuum: { every: 5 batches }
sinks:
  appended: { <<: *delta, path: "${LAB}/tables/appended", mode: append }
  latest: { <<: *delta, path: "${LAB}/tables/latest", mode: upsert, keys: [k], order_by: id }
  sums:
    <<: *delta
    path: ${LAB}/tables/sums
    mode: merge
    keys: [k]
    aggregate: { n: count(*), total: sum(id) }
  versions: { <<: *delta, path: "${LAB}/tables/versions", mode: scd2, keys: [k], order_by: id }
  out: { type: josefine, inputs: [rows], topic: out, key: k }
dead_letter: { type: delta, path: "${LAB}/tables/dead" }
trigger: { available_now: true }
restart: { attempts: 5, backoff: 1s..5s }
"""
)
TABLES = ("appended", "latest", "sums", "versions")


@dataclass(kw_only=True)
class Proof(Lab):
    """One cluster, one pipeline file, and the events that went in."""

    cluster: Cluster
    random: Random
    sent: list[dict[str, Any]] = field(default_factory=list)
    unreadable: int = 0
    kills: dict[str, int] = field(default_factory=lambda: {"broker": 0, "driver": 0, "lost": 0})

    @property
    def file(self) -> Path:
        return self.folder / "proof.yaml"

    def produce(self, count: int) -> None:
        """Events of ids in a row, one of ten held back by the check, and one that is not JSON."""
        by_partition: dict[int, list[bytes]] = {0: [], 1: []}
        for _ in range(count):
            n = len(self.sent)
            event = {"id": n, "k": f"k{n % KEYS}", "held": n % 10 == 3}
            self.sent.append(event)
            # A key's events stay in order: its partition is always the same.
            by_partition[n % KEYS % 2].append(json.dumps(event).encode())
        by_partition[self.random.randrange(2)].append(b"not json")
        self.unreadable += 1
        with BlockingClient(self.cluster.bootstrap) as client:
            for partition, values in by_partition.items():
                produce(client, TopicPartition(EVENTS, partition), values)

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """A verb of `josefine pipeline`, with micro-batches of another size each time."""
        self.bootstrap = self.cluster.bootstrap
        return self.start(*arguments, ROWS=str(self.random.randint(15, 60)))

    def finish(self, *arguments: str) -> None:
        """Waits for the command's end for as long as its sinks commit."""
        process, marks, until_s = self.command(*arguments), -1, 0.0
        try:
            while (code := process.poll()) is None:
                if (now := self.commits()) != marks:
                    marks, until_s = now, time.monotonic() + STALL_S
                assert time.monotonic() < until_s, (
                    f"{' '.join(arguments)}: no commit in {STALL_S} s"
                )
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
        finally:
            kill(process)
        assert code == 0, f"{' '.join(arguments)}: exit {code}, see {self.folder}/runs.log"

    def round(self) -> None:
        """Events, a run, and within it a dead broker, then a dead driver."""
        self.produce(self.random.randint(40, 120))
        process, before = self.command("run", str(self.file)), self.commits()
        try:
            self._wait_for_work(process, before)
            broker = self.random.choice(self.cluster.alive)
            self.cluster.kill(broker)
            self.kills["broker"] += 1
            # The random moments are the fault itself, not a wait for something to happen.
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=self.random.uniform(1, 8))
            self.cluster.restart(broker)
            self._wait_for_work(process, self.commits())
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=self.random.uniform(0, 6))
            self.kills["driver"] += process.poll() is None
        finally:
            kill(process)
        self.cluster.wait_settled()
        if self.random.random() < 0.5:
            shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
            self.kills["lost"] += 1

    def _wait_for_work(self, process: subprocess.Popen[str], before: int) -> None:
        wait_until(lambda: self.commits() > before or process.poll() is not None, 300, "a write")

    def differences(self, *, replayed: bool) -> Iterator[str]:
        """What the tables and the topic have that the events do not explain."""
        free = [event for event in self.sent if not event["held"]]
        events = self.sent if replayed else free
        of_key: dict[str, list[int]] = {}
        for event in events:
            of_key.setdefault(event["k"], []).append(event["id"])
        expected = {
            "appended": sorted(event["id"] for event in events),
            "latest": sorted(max(ids) for ids in of_key.values()),
            "sums": sorted((k, len(ids), sum(ids)) for k, ids in of_key.items()),
            "versions": sorted((i, i == max(ids)) for ids in of_key.values() for i in ids),
            "out": sorted(event["id"] for event in free),
        }
        found = self._found()
        for name, wanted in expected.items():
            if found[name] != wanted:
                missing = [each for each in wanted if each not in found[name]][:5]
                extra = [each for each in found[name] if each not in wanted][:5]
                counts = f"{len(found[name])} of {len(wanted)}"
                yield f"{name}: {counts}, missing {missing}, unexpected {extra}"
        letters = len(self.rows("dead"))
        if letters != self.unreadable + len(self.sent) - len(free):
            yield f"dead letters: {letters}"

    def _found(self) -> dict[str, list[Any]]:
        with BlockingClient(self.cluster.bootstrap) as client:
            records = committed_records(client, OUT)
        return {
            "appended": sorted(row["id"] for row in self.rows("appended")),
            "latest": sorted(row["id"] for row in self.rows("latest")),
            "sums": sorted((row["k"], row["n"], row["total"]) for row in self.rows("sums")),
            "versions": sorted((row["id"], row["_current"]) for row in self.rows("versions")),
            "out": sorted(json.loads(each.value or b"{}")["id"] for each in records),
        }


def prove(folder: Path, rounds: int, seed: int) -> tuple[list[str], Proof]:
    """(what is wrong, the proof that ran)."""
    with Cluster(folder / "cluster", 3) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic(EVENTS, 2, 3), NewTopic(OUT, 2, 3)])
        cluster.wait_settled()
        proof = Proof(
            folder=folder, bootstrap=cluster.bootstrap, cluster=cluster, random=Random(seed)
        )
        proof.file.write_text(FILE % "not held")
        for number in range(1, rounds + 1):
            proof.round()
            print(f"round {number}: {len(proof.sent)} events, {proof.kills}", flush=True)
        proof.finish("run", str(proof.file))
        wrong = list(proof.differences(replayed=False))
        proof.file.write_text(FILE % "held is not null")
        of_tables = [word for name in TABLES for word in ("--sink", name)]
        proof.finish("dlq", "replay", str(proof.file), "--execute", *of_tables)
        return wrong + list(proof.differences(replayed=True)), proof


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    asked = parser.parse_args()
    folder = folder_of(asked.folder, "proof")
    began_s = time.monotonic()
    wrong, proof = prove(folder, asked.rounds, asked.seed)
    said = f"{asked.rounds} rounds, seed {asked.seed}, {len(proof.sent)} events, {proof.kills}"
    verdict = f"NOT EXACT: {'; '.join(wrong)}" if wrong else "exact"
    print(f"{verdict} ({said}, {time.monotonic() - began_s:.0f} s, {folder})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
