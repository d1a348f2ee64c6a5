"""The benches that print their own JSON lines, as areas: one round of theirs is one round here.

They compare more than two sides (page cache, group commit, ...); the report has ours as shipped
and Apache Kafka, and the bench itself the rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Area, Case, Opened, Options, Sample
from tests.bench.areas.servers import kafka_missing

OURS, KAFKA = "josefine", "kafka"
REPOSITORY = Path(__file__).resolve().parents[3]
Line = Mapping[str, object]
UNITS = {
    "records_per_s": ("", "records/s"), "requests_per_s": ("", "requests/s"),
    "heartbeats_per_s": ("", "heartbeats/s"),
    "offsets_per_s": ("", "offsets/s"), "offsets_per_cpu_s": ("", "offsets/CPU s"),
    "per_s": ("", "done/s"), "mb_per_s": ("", "MB/s"), "p50_us": ("p50", "µs"),
    "p99_us": ("p99", "µs"), "cpu_s_per_gb": ("CPU", "s/GB"),
    "join_s": ("all have joined", "s"), "percent_of_a_core": ("CPU", "% of a core"),
    "cpu_us_per_heartbeat": ("CPU", "µs/heartbeat"), "resident_mb": ("resident", "MB"),
    "all_at_once_to_first_fetch_s": ("all at once, to the first fetch", "s"),
    "one_more_to_first_fetch_of_all_s": ("one more, to the first fetch of all", "s"),
    "cpu_s": ("CPU", "s"),
}  # fmt: skip
"""The benches' units, as measure and unit of the report; others stay as they are."""
KAFKA_PREFIX = "apache_kafka_"


@dataclass(frozen=True, slots=True)
class Printed:
    """One side of a bench that measures both in one run."""

    side: str
    rounds: dict[str, list[Line]]
    """Of each round the lines, shared by both sides: the first one runs the bench."""


@contextmanager
def both_printed(_: Path, __: Options) -> Iterator[Opened]:
    missing, rounds = kafka_missing(), dict[str, list[Line]]()
    names = [OURS] if missing else [OURS, KAFKA]
    yield Opened(sides={name: Printed(name, rounds) for name in names}, missing=missing)


def run_bench(name: str, environment: Mapping[str, str]) -> list[Line]:
    peer = {} if kafka_missing() else {"BENCH_PEER": "1", "BENCH_GROUPS_PEER": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", name], cwd=REPOSITORY, text=True,
        stdout=subprocess.PIPE, env={**os.environ, "BENCH_ROUNDS": "1", **peer, **environment},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"bench {name} failed ({done.returncode}); the lines above have why")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(
    printed: Printed,
    folder: Path,
    *,
    bench: str,
    environment: Mapping[str, str],
    samples: Callable[[Line, str], Iterator[Sample]],
) -> Iterator[Sample]:
    this_round = folder.name.rpartition("-")[0]
    if this_round not in printed.rounds:
        printed.rounds[this_round] = run_bench(bench, environment)
    for line in printed.rounds[this_round]:
        yield from samples(line, printed.side)


def of_columns(line: Line, side: str, *, ours: str = OURS) -> Iterator[Sample]:
    """A line with a column for each side; `ours`: the name of ours as shipped."""
    value = line.get(ours if side == OURS else side)
    if isinstance(value, int | float):
        name, _, unit = str(line["measure"]).partition("/")
        unit = unit or str(line.get("unit", ""))
        yield _words(name), *UNITS.get(unit, ("", unit)), float(value)


def of_prefix(line: Line, side: str) -> Iterator[Sample]:
    """A line for each side: Apache Kafka's measure has its name in front."""
    name = str(line["measure"])
    if name.startswith(KAFKA_PREFIX) == (side == KAFKA):
        unit = str(line["unit"])
        row = _words(name.removeprefix(KAFKA_PREFIX))
        yield row, *UNITS.get(unit, ("", unit)), float(str(line["value"]))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _area(
    bench: str,
    title: str,
    settings: str,
    samples: Callable[[Line, str], Iterator[Sample]],
    environment: Callable[[Options], Mapping[str, str]],
) -> Area:
    def cases(options: Options) -> list[Case]:
        run = partial(measure, bench=bench, environment=environment(options), samples=samples)
        return [Case(name=bench, run=run, rounds_max=3)]

    return Area(
        name=bench, title=title, peer="Apache Kafka", settings=settings, open=both_printed,
        cases=cases, row_title="measure",
    )  # fmt: skip


DURABILITY = _area(
    "durability",
    "Durability: acks=all, transactions and offset commits",
    "One broker, one partition, acks=all. Ours as shipped: records in the page cache, as Kafka's, "
    "and the coordinators' topics synced to disk (`log.flush_internal_topics`), which Kafka does "
    "not do: a commit of ours has survived a power loss when it is answered. `./build.sh bench "
    "durability` measures group commit for all topics too.",
    partial(of_columns, ours="coordinators"),
    lambda options: {"BENCH_SCALE": "0.2" if options.quick else "1"},
)
TLS = _area(
    "tls",
    "TLS",
    "librdkafka over TLS 1.3, one connection, one partition, acks=1, both sides warm.",
    of_columns,
    lambda options: {"BENCH_TLS": "stream", "BENCH_SCALE": "0.2" if options.quick else "1"},
)
GROUPS = _area(
    "groups",
    "Consumer groups",
    "Raw frames of members and committers, one broker with its defaults.",
    of_prefix,
    lambda options: {
        "BENCH_GROUPS": "idle,rebalance,commits",
        "BENCH_SCALE": "0.2" if options.quick else "1",
    },
)
