"""Josefine beside bare.py: the same clients, the same records, turn about in one run. With
BENCH_BESIDE=headers beside itself, without validation of records (`log.validate_records: headers`);
with BENCH_BESIDE=checkout BENCH_CHECKOUT=FOLDER beside the broker of another checkout.

A round starts each broker afresh in an empty directory, in alternating order, and takes every
measure once. What is told is the median over the rounds, and of the rounds' ratios: a noisy
machine moves both brokers of a round together. Data is deleted at the very end only (6 GB): on a
virtual machine the first use of a page of memory costs up to 2.5 CPU seconds per GB in the host,
and a broker that starts right after a deletion is spared that (measured: 0.6 instead of 3 in all).
"""

import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.bench.brokers import (
    BROKERS,
    PEER,
    TOPIC,
    Running,
    client,
    create_topic,
    wait_until_quiet,
)

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
RECORDS = {100: 2_000_000, 1000: 300_000}
LOAD_SECONDS = 3.0

Values = dict[str, float]
"""Measure → value of one broker in one round."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure_stream(broker: Running, size: int, count: int) -> Iterator[tuple[str, float]]:
    """Produce with acks=1, read it all, produce with idempotence: (measure, value)."""
    label = "100B" if size == 100 else "1KB"
    steps = (
        (f"produce_{label}_acks1", ("produce", "acks=1")),
        (f"consume_{label}", ("consume",)),
        (f"produce_{label}_idempotent", ("produce", "enable.idempotence=true")),
    )
    for name, (verb, *settings) in steps:
        cpu = broker.cpu_seconds()
        arguments = (verb, broker.bootstrap, TOPIC, count, size, *settings)
        done = json.loads(client("librdkafka", *arguments))
        wait_until_quiet(broker)
        gigabytes = done["bytes"] / 1e9
        yield f"{name}/records_per_s", done["records"] / done["seconds"]
        yield f"{name}/cpu_s_per_gb", (broker.cpu_seconds() - cpu) / gigabytes
    yield f"memory_after_{label}/resident_mb", broker.resident_mb()


def measure_requests(broker: Running) -> Iterator[tuple[str, float]]:
    """One-record produce requests on 50 connections and on 1, and those of idempotent producers."""
    for connections, *kind in ((50,), (1,), (50, "idempotent")):
        cpu = broker.cpu_seconds()
        seconds = LOAD_SECONDS * SCALE
        done = json.loads(
            client("load", broker.bootstrap, TOPIC, connections, seconds, 100, 1, *kind)
        )
        name = "_".join(["one_record", *kind, f"{connections}_connections"])
        yield f"{name}/requests_per_s", done["requests"] / done["seconds"]
        yield f"{name}/cpu_us_per_request", (broker.cpu_seconds() - cpu) / done["requests"] * 1e6
        yield f"{name}/p99_us", done["p99_us"]


OTHER_REQUESTS = ("fetch", "session", "wait", "heartbeat", "commit")
OTHER_CONNECTIONS = 20


def measure_other_requests(broker: Running) -> Iterator[tuple[str, float]]:
    """Fetches, heartbeats and offset commits of one record each (`request_load.py`)."""
    create_topic(broker.bootstrap, "others", OTHER_CONNECTIONS)
    for kind in OTHER_REQUESTS:
        where = broker.bootstrap, "others", kind, OTHER_CONNECTIONS
        done = json.loads(client("request_load", *where, LOAD_SECONDS * SCALE, broker.pid))
        yield f"{kind}/requests_per_s", done["requests"] / done["seconds"]
        yield f"{kind}/cpu_us_per_request", done["cpu_s"] * 1e6 / done["requests"]
        yield f"{kind}/p99_us", done["p99_us"]


def measure_ready(broker: Running) -> Iterator[tuple[str, float]]:
    yield "memory_ready/resident_mb", broker.resident_mb()


def run_round(number: int, directory: Path) -> dict[str, Values]:
    """{broker: {measure: value}}."""
    workloads = (
        lambda broker: [
            *measure_ready(broker),
            *measure_stream(broker, 100, int(RECORDS[100] * SCALE)),
        ],
        lambda broker: measure_stream(broker, 1000, int(RECORDS[1000] * SCALE)),
        measure_requests,
    )
    if PEER != "bare":  # it serves no groups and no sessions
        workloads = (*workloads, measure_other_requests)
    names = list(BROKERS) if number % 2 else list(BROKERS)[::-1]
    values: dict[str, Values] = {name: {} for name in names}
    for index, workload in enumerate(workloads):
        for name in names:
            with BROKERS[name](directory / f"{number}-{index}-{name}") as broker:
                for measure, value in workload(broker):
                    values[name][measure] = value
                    say(f"round {number} {name:9} {measure:48} {value:14,.1f}")
    return values


LESS_IS_BETTER = ("cpu_s_per_gb", "cpu_us_per_request", "resident_mb", "p99_us")


def report(rounds: list[dict[str, Values]]) -> Iterator[dict[str, object]]:
    """One line per measure. `ratio` is josefine as a share of the other broker (bare): above 1 is
    better than that one, also where less is better."""
    ratios = defaultdict(list)
    for values in rounds:
        for measure, ours in values["josefine"].items():
            theirs = values[PEER][measure]
            less = measure.endswith(LESS_IS_BETTER)
            better, worse = (theirs, ours) if less else (ours, theirs)
            ratios[measure].append(better / worse if worse else float("nan"))
    for measure in ratios:
        name, unit = measure.split("/")
        yield {
            "measure": name,
            "unit": unit,
            "josefine": round(median(values["josefine"][measure] for values in rounds), 2),
            PEER: round(median(values[PEER][measure] for values in rounds), 2),
            "ratio": round(median(ratios[measure]), 3),
            "rounds": len(rounds),
        }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory:
        rounds = [run_round(number, Path(directory)) for number in range(1, ROUNDS + 1)]
    for line in report(rounds):
        print(json.dumps(line), flush=True)
