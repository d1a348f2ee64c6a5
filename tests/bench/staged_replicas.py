"""The stages of a replicated record, for stages.py: three brokers, one record at a time.

Each broker runs under staged_broker.py, and once before and once after that as it is. The lines are
CPU microseconds per record of the leader and of a follower, the mean of both of these.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from josefine_broker.client.io_blocking import BlockingClient, NewTopic, Policy
from tests.bench.broker_bench import LOAD_SECONDS, SCALE
from tests.bench.brokers import Running, client
from tests.bench.staged_broker import REST
from tests.support.cluster import REPLICATED, Cluster

BROKERS, SIZE, ACKS_ALL = 3, 100, -1
TOPIC = "replicated"
LEADER, FOLLOWER = "leader", "follower"
Stages = dict[str, float]
"""Stage -> CPU microseconds per record."""


class Load(NamedTuple):
    """What came of the records of one cluster."""

    records: int
    p50_us: float
    p99_us: float
    cpu_us: dict[str, float]
    """Role -> CPU microseconds per record."""


def run(directory: Path, *, is_staged: bool) -> tuple[Load, dict[str, Stages]]:
    """The load, and the stages by role where `is_staged`."""
    directory.mkdir()

    def prefix(broker_id: int) -> tuple[str, ...]:
        output = str(directory / f"{broker_id}.json")
        return (sys.executable, "-m", "tests.bench.staged_broker", output) if is_staged else ()

    with Cluster(directory, BROKERS, prefix=prefix, **REPLICATED) as cluster:
        with BlockingClient(cluster.bootstrap, policy=Policy(request_timeout_ms=60_000)) as admin:
            admin.metadata()
            admin.create_topics([NewTopic(TOPIC, 1)])
        cluster.wait_settled()
        leader = cluster.leader_of(TOPIC)
        roles = {each: LEADER if each == leader else FOLLOWER for each in cluster.voters}
        load = _load(cluster, leader, roles, is_staged=is_staged)
        if not is_staged:
            return load, {}
        for broker_id in cluster.voters:
            cluster.stop(broker_id)  # not killed: it writes its table when it ends
    found: dict[str, list[Stages]] = {LEADER: [], FOLLOWER: []}
    for broker_id, role in roles.items():
        rows = json.loads((directory / f"{broker_id}.json").read_text())["stages"]
        found[role].append(
            {
                name: row["seconds"] / load.records * 1e6
                for name, row in rows.items()
                if name != REST and row["seconds"] > 0
            }
        )
    return load, {role: mean_of(each) for role, each in found.items()}


def _load(cluster: Cluster, leader: int, roles: dict[int, str], *, is_staged: bool) -> Load:
    running = {
        each: Running("josefine", cluster.broker(each).bootstrap, cluster.broker(each).pid)
        for each in cluster.voters
    }
    address = running[leader].bootstrap
    client("load", address, TOPIC, 1, LOAD_SECONDS * SCALE / 3, SIZE, ACKS_ALL)  # warms up
    if is_staged:
        for each in running.values():
            os.kill(each.pid, signal.SIGUSR1)
    before = {each: running[each].cpu_seconds() for each in running}
    text = client("load", address, TOPIC, 1, LOAD_SECONDS * SCALE, SIZE, ACKS_ALL)
    done = json.loads(text)
    used: dict[str, list[float]] = {LEADER: [], FOLLOWER: []}
    for each, role in roles.items():
        used[role].append((running[each].cpu_seconds() - before[each]) / done["requests"] * 1e6)
    cpu_us = {role: mean(values) for role, values in used.items()}
    return Load(done["requests"], done["p50_us"], done["p99_us"], cpu_us)


def mean_of(found: list[Stages]) -> Stages:
    """Stage by stage; one that a broker did not enter counts as nothing there."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: mean(each.get(name, 0.0) for each in found) for name in names}


def lines(plain: list[Load], stages: dict[str, Stages]) -> Iterator[dict[str, object]]:
    """As those of stages.py, by role; then the round trips of the clusters as they are."""
    for role, found in stages.items():
        total_us = mean(each.cpu_us[role] for each in plain)
        rest = {REST: max(0.0, total_us - sum(found.values())), "total": total_us}
        for name, us in {**found, **rest}.items():
            yield {
                "measure": f"replicate, {role}, stage: {name}",
                "unit": "cpu_us_per_record",
                "josefine": round(us, 2),
                "share": round(us / total_us, 3),
            }
    for name in ("p50_us", "p99_us"):
        value = mean(getattr(each, name) for each in plain)
        yield {"measure": "replicate, round trip", "unit": name, "josefine": round(value, 1)}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="josefine-stages-") as scratch:
        root = Path(scratch)
        before, _ = run(root / "before", is_staged=False)
        _, stages = run(root / "staged", is_staged=True)
        after, _ = run(root / "after", is_staged=False)
    for line in lines([before, after], stages):
        print(json.dumps(line), flush=True)
