"""Three members as processes, with fsync, on loopback: commits per second, and failover by kill -9.

What a process says (raft_process.py) comes over its stdout; a thread each puts it into one queue.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

__all__ = ["Cluster", "measure_processes"]

NODES = (1, 2, 3)
ELECTION_TIMEOUT_MS = 1000
OUTSTANDING = (1, 100, 1000)
WAIT_S = 60


class Cluster:
    """Context manager: three processes in empty directories."""

    def __init__(self, directory: Path, *, election_timeout_ms: int = ELECTION_TIMEOUT_MS) -> None:
        self.election_timeout_ms = election_timeout_ms
        self.events: Queue[tuple[int, dict[str, Any]]] = Queue()
        self.ports: dict[int, int] = {}
        self.directory = directory
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def __enter__(self) -> "Cluster":
        for id_ in NODES:
            self.spawn(id_)
        while len(self.ports) < len(NODES):
            id_, event = self.next("listens")
            self.ports[id_] = event["port"]
        for id_ in NODES:
            self.begin(id_)
        return self

    def begin(self, id_: int) -> None:
        timeout_ms = self.election_timeout_ms
        self.say(
            id_, do="begin", ports=self.ports,
            heartbeat_ms=timeout_ms // 10, election_timeout_ms=timeout_ms,
        )  # fmt: skip

    def kill(self, id_: int) -> None:
        """kill -9."""
        self.processes[id_].kill()
        self.processes[id_].wait()

    def start_again(self, id_: int) -> None:
        self.spawn(id_)
        self.next("listens")
        self.begin(id_)

    def look(self, id_: int) -> dict[str, Any]:
        """What the member sees of itself."""
        self.say(id_, do="look")
        return self.next("look")[1]

    def __exit__(self, *_: object) -> None:
        for id_ in self.processes:
            self.kill(id_)

    def spawn(self, id_: int) -> None:
        module, port = "tests.bench.raft_process", self.ports.get(id_, 0)
        words = (sys.executable, "-m", module, self.directory / str(id_), id_, port)
        process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.processes[id_] = process
        threading.Thread(target=self.listen, args=(id_, process), daemon=True).start()

    def listen(self, id_: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.events.put((id_, json.loads(line)))

    def say(self, id_: int, **command: Any) -> None:
        stdin = self.processes[id_].stdin
        assert stdin is not None
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()

    def next(self, kind: str) -> tuple[int, dict[str, Any]]:
        """The next event of this kind; others are passed over."""
        while True:
            id_, event = self.events.get(timeout=WAIT_S)
            if event["event"] == kind:
                return id_, event


def measure_load(seconds: float) -> Iterator[tuple[str, float]]:
    with TemporaryDirectory(prefix="raft-bench-") as name, Cluster(Path(name)) as cluster:
        leader, _ = cluster.next("leads")
        for outstanding in OUTSTANDING:
            cluster.say(leader, do="load", outstanding=outstanding, seconds=seconds)
            _, done = cluster.next("load")
            for unit in ("proposals_per_s", "p50_us", "p99_us"):
                yield f"commit_3_processes_fsync_{outstanding}_outstanding/{unit}", done[unit]


def one_failover() -> float:
    """Seconds from the kill of the leader, under load, to the first commit of the next."""
    with TemporaryDirectory(prefix="raft-bench-") as name, Cluster(Path(name)) as cluster:
        leader, _ = cluster.next("leads")
        cluster.say(leader, do="load", outstanding=100, seconds=0.5)
        cluster.next("load")
        cluster.say(leader, do="load", outstanding=100, seconds=60)
        cluster.processes[leader].kill()
        died = monotonic()
        _, event = cluster.next("leads")
        return float(event["at"]) - died


def measure_processes(*, seconds: float, failovers: int) -> Iterator[tuple[str, float]]:
    """(measure/unit, value): load first, then the failovers."""
    yield from measure_load(seconds)
    times = [one_failover() * 1000 / ELECTION_TIMEOUT_MS for _ in range(failovers)]
    yield "failover_3_processes_median/election_timeouts", median(times)
    yield "failover_3_processes_worst/election_timeouts", max(times)
