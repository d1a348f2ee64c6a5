"""`./build.sh bench raft`: what chained Raft costs, as a library alone and as three processes.

Commits and their latency in one process and in three with fsync; start and memory of a long chain;
dead branches behind a short and a long committed chain; failover in election timeouts. BENCH_SCALE
shortens counts and times (not the million blocks of the start; those have BENCH_BLOCKS).
"""

import json
import os
import sys
from collections.abc import Iterator

from tests.bench.raft_branches import measure_branches
from tests.bench.raft_cluster import measure_processes
from tests.bench.raft_commits import measure_commits
from tests.bench.raft_failover import measure_failover
from tests.bench.raft_store import measure_start

SCALE = float(os.environ.get("BENCH_SCALE", "1"))
BLOCKS = int(os.environ.get("BENCH_BLOCKS", "1000000"))
PROPOSALS = 100_000
FAILOVER_RUNS = 2_000
FAILOVER_KILLS = 10
LOAD_SECONDS = 5.0

SIGNIFICANT_DIGITS = 4


def measures() -> Iterator[tuple[str, float]]:
    """(measure/unit, value), quick ones first."""
    yield from measure_commits(max(1_000, int(PROPOSALS * SCALE)))
    yield from measure_start(BLOCKS)
    yield from measure_branches((1_000, BLOCKS))
    yield from measure_failover(max(10, int(FAILOVER_RUNS * SCALE)))
    yield from measure_processes(
        seconds=LOAD_SECONDS * SCALE, failovers=max(1, int(FAILOVER_KILLS * SCALE))
    )


def main() -> None:
    for name, value in measures():
        measure, unit = name.split("/")
        rounded = float(f"{value:.{SIGNIFICANT_DIGITS}g}")
        print(json.dumps({"measure": measure, "unit": unit, "value": rounded}), flush=True)
    print(f"load average at the end: {os.getloadavg()[0]:.2f}", file=sys.stderr)
