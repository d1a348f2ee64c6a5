"""What a mirror costs: CPU of the mirror, its target and its source, and the rate.

`small`: records of 100 bytes in batches of 16 KB; goal (issue 41): 1 M records/s. `large`: records
of 1 KB in batches of 256 KB; goal: 200 MB/s. Seconds of a busy machine have other work in them; CPU
seconds have not. The logs are in memory (`/dev/shm`): a mirror is no test of disks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.bench.brokers import Running
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
TOPIC, PARTITIONS = "bench", 4
BYTES = int(800e6 * SCALE)
CASES = {"small": (100, 150), "large": (1_000, 256)}
"""Bytes of a record, and records of a batch."""

Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""


def mirrored(directory: Path, name: str) -> Measured:
    """Copy a topic once, from one Josefine to another."""
    size, per_batch = CASES[name]
    with BrokerProcess(directory / "source") as source, BrokerProcess(directory / "target") as to:
        batch = build_batch([Record(None, os.urandom(size // 2).hex().encode())] * per_batch)
        tps = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        rounds = max(1, BYTES // (len(batch) * PARTITIONS))
        with BlockingClient(source.bootstrap) as client:
            client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
            for _ in range(rounds):
                client.produce({tp: bytearray(batch) for tp in tps})
        batches = rounds * PARTITIONS
        gigabytes, records = batches * len(batch) / 1e9, batches * per_batch
        sides = [Running("josefine", each.bootstrap, each.pid) for each in (source, to)]
        before, began = [each.cpu_seconds() for each in sides], time.perf_counter()
        own, resident_mb = _run(source.bootstrap, to.bootstrap)
        seconds = time.perf_counter() - began
        used = [each.cpu_seconds() - cpu for each, cpu in zip(sides, before, strict=True)]
        # Imports, metadata and the comparison of the ends.
        start, _ = _run(source.bootstrap, to.bootstrap)
        own = max(0.0, own - start)
        yield name, "mb_per_s", 1e3 * gigabytes / seconds
        yield name, "records_per_s", records / seconds
        for who, cpu in zip(("mirror", "source", "target"), (own, *used), strict=True):
            yield name, f"{who}_cpu_s_per_gb", cpu / gigabytes
            yield name, f"{who}_cpu_us_per_record", 1e6 * cpu / records
        yield name, "mirror_start_cpu_s", start
        yield name, "mirror_resident_mb", resident_mb


def _run(source: str, target: str) -> tuple[float, float]:
    """One mirror until it has everything: (CPU seconds, largest resident size)."""
    arguments = ("mirror", "run", "--from", source, "--topic", TOPIC, "--once")
    process = subprocess.Popen(
        [*COMMAND, *arguments], env=environment(target), stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the mirror ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """BENCH_MIRROR chooses cases, like `small`."""
    wanted = os.environ.get("BENCH_MIRROR", ",".join(CASES)).split(",")
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(ROUNDS):
        for case in wanted:
            with tempfile.TemporaryDirectory(prefix="josefine-mirror-", dir=place) as directory:
                for name, unit, value in mirrored(Path(directory), case):
                    values[name, unit].append(value)
                    text = f"round {number + 1}: {name} {unit} {value:.3f}"
                    print(text, file=sys.stderr, flush=True)
    for (name, unit), each in values.items():
        line = {"bench": "mirror", "measure": name, "unit": unit, "value": round(median(each), 3)}
        load = round(os.getloadavg()[0], 1)
        print(json.dumps(line | {"rounds": len(each), "load": load}), flush=True)


if __name__ == "__main__":
    main()
