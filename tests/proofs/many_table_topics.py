"""A proof: one writer keeps the tables of many topics, one of them poisoned. Prints a verdict.

`python -m tests.proofs.many_table_topics [--tables 200] [--idle-s 60] [--lag-ms 30000]`

One broker has the topics, each with `josefine.table.location`, and one process of
`josefine tables run` writes all of them. One topic has a record that does not decode and
`dead.letter=fail`. First each topic gets a record; then nothing happens for `--idle-s`, and the
processor time of the writer is compared with 0.1 % of a core for each table; then each topic gets
one more record, which has to be in its table within the target lag. The poisoned table has to be
the only one that is stopped, and the writer may have used 2 GB of memory at most.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment
from tests.support.waiting import wait_until

POISONED = "t-000"
IDLE_SHARE_MAX = 0.001
"""Of a core, for each table."""
MEMORY_MAX = 2 << 30
START_S = 600
TICK_S = os.sysconf("SC_CLK_TCK")


class Writer:
    """The process under test, seen from outside and by its metrics."""

    def __init__(self, bootstrap: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "tables", "run"],
            env=environment(bootstrap),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        found = re.search(r"http://\S+/metrics", self.process.stderr.readline())
        assert found is not None
        self._url = found[0]

    def metric(self, name: str) -> dict[str, float]:
        """A metric by topic."""
        with urllib.request.urlopen(self._url, timeout=60) as answer:
            text = answer.read().decode()
        lines = re.findall(rf'^josefine_table_{name}{{topic="(.*)"}} (.*)$', text, re.MULTILINE)
        return {topic: float(value) for topic, value in lines}

    def rows(self, count: int) -> int:
        """The number of tables with so many rows."""
        return sum(each >= count for each in self.metric("rows_total").values())


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK_S


def peak_bytes(pid: int) -> int:
    """Its largest resident memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def send(bootstrap: str, topics: list[str], value: bytes) -> dict[str, float]:
    """When the brokers had each topic's record."""
    acknowledged = {}
    with BlockingClient(bootstrap) as client:
        producer = BlockingProducer(client)
        for topic in topics:
            producer.send(topic, None, value, partition=0)
            producer.flush()
            acknowledged[topic] = time.time()
    return acknowledged


def create(bootstrap: str, topics: list[str], lake: Path, lag_ms: int) -> None:
    with BlockingClient(bootstrap) as client:
        for topic in topics:
            configs = {
                "josefine.table.location": str(lake / topic),
                "josefine.table.format": "json",
                "josefine.table.schema": "id INT",
                "josefine.table.target.lag.ms": str(lag_ms),
                "josefine.table.dead.letter": "fail",
            }
            client.create_topics([NewTopic(name=topic, partitions=1, configs=configs)])


def proof(folder: Path, tables: int, idle_s: float, lag_ms: int) -> list[str]:
    """What failed."""
    topics = [f"t-{number:03}" for number in range(tables)]
    good = [each for each in topics if each != POISONED]
    with BrokerProcess(folder / "broker", group__initial_rebalance_delay_ms=0) as broker:
        create(broker.bootstrap, topics, folder / "lake", lag_ms)
        send(broker.bootstrap, good, b'{"id": 1}')
        send(broker.bootstrap, [POISONED], b"poison")
        began_s = time.monotonic()
        writer = Writer(broker.bootstrap)
        try:
            wait_until(lambda: writer.rows(1) >= len(good), START_S, "the first rows")
            started_s = time.monotonic() - began_s
            return measured(writer, broker, good, started_s, idle_s, lag_ms)
        finally:
            writer.process.kill()
            writer.process.communicate()


def measured(
    writer: Writer,
    broker: BrokerProcess,
    good: list[str],
    started_s: float,
    idle_s: float,
    lag_ms: int,
) -> list[str]:
    """Idle cost, the time of one more record to each table, memory."""
    pids = (writer.process.pid, broker.pid)
    before = [cpu_s(pid) for pid in pids]
    with suppress(subprocess.TimeoutExpired):
        # The end of the writer would be a failure.
        return [f"the writer ended with {writer.process.wait(idle_s)}"]
    used = [(cpu_s(pid) - was) / idle_s for pid, was in zip(pids, before, strict=True)]
    share = used[0] / (len(good) + 1)

    sent_s = send(broker.bootstrap, good, b'{"id": 2}')
    wait_until(lambda: writer.rows(2) >= len(good), START_S, "the second rows")
    times = writer.metric("commit_timestamp_seconds")
    lags = sorted(times[topic] - sent_s[topic] for topic in good)
    stopped = [topic for topic, is_so in writer.metric("stopped").items() if is_so]
    memory = peak_bytes(writer.process.pid)

    print(
        f"{len(good) + 1} tables: first rows of all after {started_s:.0f} s; idle {share:.4%} of a "
        f"core each (broker {used[1] / (len(good) + 1):.4%}); time to table p50 "
        f"{lags[len(lags) // 2]:.1f} s, max {lags[-1]:.1f} s of {lag_ms / 1000:g} s; "
        f"{memory >> 20} MiB; stopped: {', '.join(stopped)}"
    )
    failures = []
    if share >= IDLE_SHARE_MAX:
        failures.append(f"an idle table costs {share:.4%} of a core")
    if lags[-1] > lag_ms / 1000:
        failures.append(f"a table was {lags[-1]:.1f} s late")
    if stopped != [POISONED]:
        failures.append(f"stopped: {stopped}")
    if memory > MEMORY_MAX:
        failures.append(f"{memory >> 20} MiB of memory")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--idle-s", type=float, default=60)
    parser.add_argument("--lag-ms", type=int, default=30_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        failures = proof(Path(folder), given.tables, given.idle_s, given.lag_ms)
    print("verdict: " + ("; ".join(failures) if failures else "passed"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
