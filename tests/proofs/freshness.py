"""A long proof: a sink with `fresh` and `file` holds both under a load that grows and ends.

`python -m tests.proofs.freshness [--small] [--most RATE] [--folder FOLDER]`

A pipeline with `fresh: 30s, file: 128MB` reads one topic while the load grows by factors of ten,
from 100 to 100,000 records per second, and then ends. Of each commit the proof takes the age of its
oldest record at the time of the commit, both from the Delta log: at most 1 % may be older than the
target. The first two commits do not count: until then Spark starts. The table may have a file per
64 MB and 20 more at the end. After the load has ended, all processes of the run may take 2 % of a
core. `--small`: `fresh: 24s, file: 1MB`, from 100 to 10,000 records per second, for less time.
`--most`: the last rate, where the machine, which also makes the load, has no cores for more.

A rate that was not reached proves nothing: the proof fails then too. For each rate it prints the
processor time of the run, of the broker and of the load, as cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import NewTopic
from josefine_broker.client.io_blocking import BlockingClient
from tests.proofs.runs import Lab, folder_of, kill, produce, used_by, used_by_process
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

PARTITIONS = [TopicPartition("events", n) for n in range(2)]
TICK_S = 0.2
LATE_MAX, IDLE_MAX, FILES_MORE, FILE_HALF = 0.01, 0.02, 20, 2
REACHED_MIN = 0.98
"""Of the asked rate."""
NOT_COUNTED = 2

FILE = """
version: 1
name: proof
spark:
  master: "local[2]"
  conf: {{ spark.sql.shuffle.partitions: 2, spark.driver.memory: 2g }}
  checkpoint: ${{LAB}}/checkpoint
sources:
  events:
    type: josefine
    bootstrap: ${{BOOTSTRAP}}
    topics: [events]
    decode: {{ value: {{ format: json, schema: "id BIGINT, k STRING", on_error: fail }} }}
transforms:
  rows: {{ inputs: [events], sql: "select timestamp, value.* from events" }}
sinks:
  out:
    {{ type: delta, inputs: [rows], path: "${{LAB}}/out", mode: append,
      fresh: {fresh_s}s, file: {file_mb}MB }}
"""


@dataclass(frozen=True, kw_only=True)
class Form:
    fresh_s: int
    file_mb: int
    loads: tuple[int, ...]
    each_s: float
    idle_s: float


FULL = Form(fresh_s=30, file_mb=128, loads=(100, 1_000, 10_000, 100_000), each_s=120, idle_s=120)
SMALL = Form(fresh_s=24, file_mb=1, loads=(100, 1_000, 10_000), each_s=30, idle_s=20)


def rest(process: subprocess.Popen[str], seconds: float) -> None:
    """Let time pass while the run goes on: how much happens in it is what is proven."""
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(timeout=max(0.0, seconds))
        raise AssertionError(f"the run has ended with {code}, see runs.log")


def load(
    client: BlockingClient,
    process: subprocess.Popen[str],
    per_second: int,
    seconds: float,
    first: int,
) -> int:
    """Produce records at this rate; returns the next id."""
    until_s, each = time.monotonic() + seconds, max(1, round(per_second * TICK_S / 2))
    due_s = time.monotonic()
    while time.monotonic() < until_s:
        for partition in PARTITIONS:
            values = (b'{"id": %d, "k": "k%d"}' % (n, n % 7) for n in range(first, first + each))
            produce(client, partition, values)
            first += each
        due_s += TICK_S
        rest(process, due_s - time.monotonic())
    return first


def ages_s(table: Path) -> Iterator[float]:
    """Of each commit with rows: how old its oldest record was then."""
    for log in sorted(table.glob("_delta_log/*.json")):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        info: dict[str, Any] = next(
            (each["commitInfo"] for each in actions if "commitInfo" in each), {}
        )
        if info.get("operation") != "WRITE":
            continue
        stats = [json.loads(each["add"]["stats"]) for each in actions if "add" in each]
        firsts = [each["minValues"]["timestamp"] for each in stats if each["numRecords"]]
        if firsts:
            oldest_s = min(datetime.fromisoformat(each).timestamp() for each in firsts)
            yield info["timestamp"] / 1000 - oldest_s


def rows(table: Path) -> int:
    with suppress(Exception):  # there is no table yet
        return int(DeltaTable(str(table)).count())
    return 0


def prove(folder: Path, form: Form) -> int:
    # Nothing is stopped between the phases: the targets are those of one run.
    table, file = folder / "out", folder / "proof.yaml"
    file.write_text(FILE.format(fresh_s=form.fresh_s, file_mb=form.file_mb))
    with BrokerProcess(folder / "broker") as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("events", len(PARTITIONS))])
        process = Lab(folder=folder, bootstrap=broker.bootstrap).start("run", str(file))
        try:
            made = load(client, process, 1, 1, 0)
            wait_until(lambda: rows(table) == made, 120, "the first rows")
            reached = 1.0
            for per_second in form.loads:
                costs = Costs(run=process.pid, broker=broker.pid)
                end = load(client, process, per_second, form.each_s, made)
                now = (end - made) / costs.seconds()
                reached, made = min(reached, now / per_second), end
                print(
                    f"{per_second} records/s: {now:.0f} reached, {made} made, {rows(table)} there; "
                    f"{costs}; load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
            wait_until(lambda: rows(table) == made, 600, "all rows")
            rest(process, form.fresh_s)  # a compaction may still run: idle is what follows
            before_s = used_by(process.pid).cpu_s
            rest(process, form.idle_s)
            idle = (used_by(process.pid).cpu_s - before_s) / form.idle_s
        finally:
            kill(process)
    return verdict(table, form, idle, reached)


class Costs:
    """The processor time of three processes since its creation, in cores."""

    def __init__(self, run: int, broker: int) -> None:
        self._run, self._broker = run, broker
        self._start_s = time.monotonic()
        self._before_s = self._used_s()

    def seconds(self) -> float:
        return time.monotonic() - self._start_s

    def _used_s(self) -> dict[str, float]:
        run, broker = used_by(self._run), used_by_process(self._broker)
        return {
            "run": run.cpu_s + run.ended_cpu_s,
            "broker": broker.cpu_s + broker.ended_cpu_s,
            "load": time.process_time(),
        }

    def __str__(self) -> str:
        seconds, used_s = self.seconds(), self._used_s()
        shares = ((name, (used_s[name] - s) / seconds) for name, s in self._before_s.items())
        return "cores: " + ", ".join(f"{name} {share:.2f}" for name, share in shares)


def verdict(table: Path, form: Form, idle: float, reached: float) -> int:
    ages = list(ages_s(table))[NOT_COUNTED:]
    late = sum(age > form.fresh_s for age in ages)
    sizes = DeltaTable(str(table)).get_add_actions(flatten=True)["size_bytes"].to_pylist()
    files_max = sum(sizes) / (form.file_mb * 2**20 / FILE_HALF) + FILES_MORE
    is_held = late <= LATE_MAX * len(ages) and len(sizes) <= files_max and idle <= IDLE_MAX
    is_held = is_held and reached >= REACHED_MIN
    print(
        f"{'held' if is_held else 'NOT held'}: {late} of {len(ages)} commits later than "
        f"{form.fresh_s} s, the oldest record {max(ages):.1f} s; {len(sizes)} files of "
        f"{sum(sizes) / 2**20:.1f} MB (at most {files_max:.0f}); idle {idle:.1%} of a core "
        f"(at most {IDLE_MAX:.0%}); each rate reached by {reached:.0%} (at least {REACHED_MIN:.0%})"
    )
    return 0 if is_held else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--most", type=int, help="records per second; default: those of the form")
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    asked = parser.parse_args()
    folder = folder_of(asked.folder, "fresh")
    form = SMALL if asked.small else FULL
    if asked.most:
        loads = (*(each for each in form.loads if each < asked.most), asked.most)
        form = replace(form, loads=loads)
    return prove(folder, form)


if __name__ == "__main__":
    sys.exit(main())
