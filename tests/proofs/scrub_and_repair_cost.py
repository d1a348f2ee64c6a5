"""A proof: what the scrub costs, and how long a repair takes. Prints a verdict for each.

`python -m tests.proofs.scrub_and_repair_cost [--megabytes 1024] [--rounds 4] [--seconds 4]
[--only scrub|repair|wait]`

Scrub: two brokers with the same log, one of which reads it all the time at 10 MB/s. A producer
writes to one and to the other in turn, at full rate. Mark: at most 3 % more processor time of the
broker per GB produced. Throughput is printed too, but other load on the machine changes it more
than the scrub does; so is the processor time of a broker without clients.
Repair: every sealed segment of a follower is removed, and copied back from its leader. Mark: 60 s
for 1 GB.
Wait: one bit flips near the end of a segment of a quarter of a GB, at the leader, and a consumer
reads there. Mark: 2 s, however long the repair of the segment takes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import NewTopic
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record, build_batch
from josefine_cli.base.admin import ask
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until

TP = TopicPartition("orders", 0)
BATCH = build_batch([Record(key=None, value=b"x" * 1000, headers=(), timestamp_ms=1)] * 1000)
SEGMENT_BYTES = 32 * 1024 * 1024
WAIT_SEGMENT_BYTES = 256 * 1024 * 1024
IDLE_S, HEALED_S = 5, 300
MARK_PERCENT, MARK_WAIT_S = 3, 2.0
MARK_MEGABYTES_PER_S = 1_000 / 60
SCRUBBED: dict[str, Any] = {"log__scrub_interval_ms": 1_000}
NOT_SCRUBBED: dict[str, Any] = {"log__scrub_bytes_per_second_max": 1_024}


def fill(cluster: Cluster, megabytes: int, replicas: int) -> None:
    with BlockingClient(cluster.bootstrap) as client:
        client.create_topics([NewTopic(TP.topic, 1, replicas)])
        for _ in range(megabytes * 1024 * 1024 // len(BATCH) + 1):
            client.produce({TP: BATCH})


def processor_s(cluster: Cluster) -> float:
    """Of the first broker, user and system."""
    process = cluster.broker(1).process
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Of a few seconds at full rate."""

    megabytes_per_s: float
    processor_s_per_gb: float


def cost_of(cluster: Cluster, seconds: float) -> Cost:
    """One producer writes as fast as it can."""
    count, began_s, before_s = 0, time.monotonic(), processor_s(cluster)
    with BlockingClient(cluster.bootstrap) as client:
        while time.monotonic() - began_s < seconds:
            client.produce({TP: BATCH})
            count += 1
    written = count * len(BATCH) / 1e6
    used_s = processor_s(cluster) - before_s
    return Cost(written / (time.monotonic() - began_s), used_s / written * 1_000)


def measure_scrub(folder: Path, rounds: int, seconds: float) -> bool:
    """Whether the mark holds."""
    sizes: dict[str, Any] = {"log__segment_bytes": SEGMENT_BYTES}
    with (
        Cluster(folder / "with", 1, **sizes, **SCRUBBED) as scrubbed,
        Cluster(folder / "without", 1, **sizes, **NOT_SCRUBBED) as plain,
    ):
        both = (scrubbed, plain)
        idle = []
        for cluster in both:
            fill(cluster, 256, 1)
        url = scrubbed.broker(1).admin_url
        for cluster in both:
            before, verified = processor_s(cluster), ask(url, "/logs")["bytes_verified"]
            began_s = time.monotonic()
            wait_until(lambda s=began_s: time.monotonic() > s + IDLE_S, 2 * IDLE_S, "an idle time")
            idle.append((processor_s(cluster) - before) / (time.monotonic() - began_s))
        read = (ask(url, "/logs")["bytes_verified"] - verified) / 1e6 / IDLE_S
        costs: list[tuple[Cost, Cost]] = []
        for number in range(rounds):  # alternating: the machine may become slower with time
            order = both if number % 2 else both[::-1]
            found = {cluster: cost_of(cluster, seconds) for cluster in order}
            costs.append((found[scrubbed], found[plain]))
    used = [median(each[side].processor_s_per_gb for each in costs) for side in (0, 1)]
    ratio = median(one.megabytes_per_s / other.megabytes_per_s for one, other in costs)
    # Of neighbours: the machine's other load changes both sides of a round alike.
    shares = [one.processor_s_per_gb / other.processor_s_per_gb for one, other in costs]
    more = 100 * median(shares) - 100
    each = ", ".join(f"{a.processor_s_per_gb:.2f}/{b.processor_s_per_gb:.2f}" for a, b in costs)
    print(
        f"scrub: {'held' if more <= MARK_PERCENT else 'NOT held'}: {more:+.1f} % processor time "
        f"per GB produced (median of {rounds} rounds), {used[0]:.3f} s with it and "
        f"{used[1]:.3f} s without ({each}), {read:.1f} MB/s read, throughput "
        f"{100 * ratio - 100:+.1f} %, "
        f"processor of an idle broker {100 * idle[0]:.1f} % with it, {100 * idle[1]:.1f} % without",
        flush=True,
    )
    return more <= MARK_PERCENT


def measure_repair(folder: Path, megabytes: int) -> bool:
    """Whether the mark holds."""
    with Cluster(folder / "repair", 3, log__segment_bytes=SEGMENT_BYTES) as cluster:
        cluster.wait_settled()
        fill(cluster, megabytes, 2)
        partition = cluster.partition(TP.topic, 0)
        follower = next(each for each in partition["replicas"] if each != partition["leader"])
        sealed = sorted((cluster.broker(follower).data_dir / str(TP)).glob("*.log"))[:-1]
        size = sum(each.stat().st_size for each in sealed)
        for each in sealed:
            each.unlink()
        url, began_s = cluster.broker(follower).admin_url, time.monotonic()
        ask(url, "/logs/verify", acts=True)

        def is_whole() -> bool:
            view = ask(url, "/logs")
            return not view["verify_left"] and not view["damaged"]

        wait_until(is_whole, HEALED_S, "a whole replica")
        took_s = time.monotonic() - began_s
        assert sum(each.stat().st_size for each in sealed) == size
    rate = size / 1e6 / took_s
    is_held = rate >= MARK_MEGABYTES_PER_S
    told = f"{size / 1e6:.0f} MB in {took_s:.1f} s, {rate:.0f} MB/s"
    print(f"repair: {'held' if is_held else 'NOT held'}: {told}", flush=True)
    return is_held


def measure_wait(folder: Path) -> bool:
    """Whether the mark holds."""
    with Cluster(folder / "wait", 3, log__segment_bytes=WAIT_SEGMENT_BYTES) as cluster:
        cluster.wait_settled()
        fill(cluster, WAIT_SEGMENT_BYTES // 2**20 + 8, 2)
        for each in cluster.voters:  # they verified it while it was copied: none may remember
            cluster.stop(each)
        cluster.spawn(*cluster.voters)
        cluster.wait_serving(*cluster.voters)
        cluster.wait_settled()
        leader = cluster.broker(cluster.leader_of(TP.topic))
        path = min((leader.data_dir / str(TP)).glob("*.log"))
        with path.open("r+b") as file:
            at = (path.stat().st_size // len(BATCH) - 2) * len(BATCH)
            file.seek(at + len(BATCH) // 2)
            byte = file.read(1)[0]
            file.seek(at + len(BATCH) // 2)
            file.write(bytes((byte ^ 1,)))
        offset, began_s = at // len(BATCH) * 1_000, time.monotonic()
        with BlockingClient(cluster.bootstrap) as client:

            def has_records() -> bool:
                part = client.fetch({TP: offset}, max_wait_ms=500).get(TP)
                return part is not None and bool(part.records)

            wait_until(has_records, HEALED_S, "the record behind the damage")
        took_s = time.monotonic() - began_s
        wait_until(lambda: ask(leader.admin_url, "/logs")["repaired"], HEALED_S, "the repair")
        repaired_s = time.monotonic() - began_s
    is_held = took_s <= MARK_WAIT_S
    verdict = "held" if is_held else "NOT held"
    size = WAIT_SEGMENT_BYTES / 1e6
    print(
        f"wait: {verdict}: {took_s:.1f} s for the record, {repaired_s:.1f} s for the repair of its "
        f"segment of {size:.0f} MB",
        flush=True,
    )
    return is_held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024, help="of the log to repair")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4, help="of each side of a round")
    parser.add_argument("--only", choices=("scrub", "repair", "wait"))
    asked = parser.parse_args()
    held = []
    with tempfile.TemporaryDirectory(prefix="josefine-proof-") as folder:
        if asked.only in (None, "scrub"):
            held.append(measure_scrub(Path(folder), asked.rounds, asked.seconds))
        if asked.only in (None, "repair"):
            held.append(measure_repair(Path(folder), asked.megabytes))
        if asked.only in (None, "wait"):
            held.append(measure_wait(Path(folder)))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
