"""Pipelines: what `josefine pipeline lint` costs on a file of 500 lines, without a JVM.

CPU seconds of the whole process, start of Python included: other load on the machine changes them
less than wall time. The best of the rounds, for what is more is the machine's.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

LINES = 500
ROUNDS = 5

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
    """Print the measure."""
    rounds = int(os.environ.get("BENCH_ROUNDS", ROUNDS))
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
        )
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
