"""Pipelines: the shipped flights beside a job written by hand, what a batch and a record wait for,
and what `josefine pipeline lint` costs on a file of 500 lines, without a JVM.

BENCH_PIPELINES (`lint,flights,idle,batches,backfill`) chooses. Of lint CPU seconds of the whole
process are told, start of Python included: other load on the machine changes them less than wall
time. The best of the rounds, for what is more is the machine's.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = ("lint", "flights", "idle", "batches", "backfill")
LINES = 500
LINT_ROUNDS = 5
ROUNDS = 3
SCALE = 0.1
"""Of the backfill's 10,000,000 events, where BENCH_SCALE is silent."""

_HEAD = """\
version: 1
name: bench
spark: { master: "local[2]", checkpoint: /bench/checkpoints }
sources:
  events:
    type: josefine
    bootstrap: 127.0.0.1:9092
    topics: [events]
    decode:
      value:
        format: json
        on_error: dead_letter
        schema: "id BIGINT, amount DOUBLE, place STRUCT<lat: DOUBLE, lon: DOUBLE>, note STRING"
dead_letter: { type: delta, path: /bench/dead }
trigger: { every: 5s }
"""
_TRANSFORM = """\
  t{n}:
    inputs: [events]
    sql: >
      select value.id, value.amount * {n} as amount, value.place.lat, upper(value.note) as note,
      case when value.amount > {n} then 'large' else 'small' end as size,
      topic as _topic, partition as _partition, offset as _offset
      from events where value.id is not null and value.amount > {n}
"""
_SINK = """\
  s{n}:
    type: delta
    inputs: [t{n}]
    path: /bench/tables/s{n}
    mode: merge
    keys: [id, size]
    aggregate:
      n: count(*)
      amount: sum(amount)
      north: max(lat)
"""


def pipeline_file(lines: int) -> str:
    """A pipeline of at least so many lines: one source, transforms and sinks in pairs."""
    pair = _TRANSFORM.count("\n") + _SINK.count("\n")
    count = -(-(lines - _HEAD.count("\n") - 2) // pair)
    transforms = "".join(_TRANSFORM.format(n=n) for n in range(count))
    sinks = "".join(_SINK.format(n=n) for n in range(count))
    return f"{_HEAD}transforms:\n{transforms}sinks:\n{sinks}"


def main() -> None:
    """Print the measures that BENCH_PIPELINES names."""
    rounds = int(os.environ.get("BENCH_ROUNDS", ROUNDS))
    asked = os.environ.get("BENCH_PIPELINES", ",".join(CASES)).split(",")
    unknown = [name for name in asked if name not in CASES]
    if unknown:
        raise SystemExit(f"BENCH_PIPELINES knows {', '.join(CASES)}, not {unknown[0]!r}")
    if "lint" in asked:
        lint(int(os.environ.get("BENCH_ROUNDS", LINT_ROUNDS)))
    if asked == ["lint"]:
        return
    from tests.bench import pipelines_batches, pipelines_flights, pipelines_idle, pipelines_lab

    with pipelines_lab.lab() as lab:
        if "flights" in asked:
            pipelines_flights.measure(lab, rounds)
        if "idle" in asked:
            pipelines_idle.measure(lab)
        if "batches" in asked:
            pipelines_batches.small(lab, rounds)
            pipelines_batches.large(lab, rounds)
        if "backfill" in asked:
            pipelines_batches.backfill(lab, float(os.environ.get("BENCH_SCALE", SCALE)))


def lint(rounds: int) -> None:
    """Print what the command costs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.yaml"
        file.write_text(pipeline_file(LINES))
        seconds = [_lint(file) for _ in range(rounds)]
    spin = _spin()
    print(
        json.dumps(
            {
                "measure": "pipelines.lint_500_lines",
                "cpu_seconds": round(min(seconds), 3),
                "of": [round(each, 3) for each in seconds],
                "empty_python": round(min(_cpu([sys.executable, "-c", ""]) for _ in range(3)), 3),
                "two_million_squares": round(spin, 3),
            }
        ),
        flush=True,
    )


def _lint(file: Path) -> float:
    return _cpu([sys.executable, "-m", "josefine_cli.main", "pipeline", "lint", str(file)])


def _cpu(command: list[str]) -> float:
    """User and system seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _spin() -> float:
    """How fast this machine is just now: seconds of CPU for the same small work, always."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    sum(number * number for number in range(2_000_000))
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


if __name__ == "__main__":
    main()
