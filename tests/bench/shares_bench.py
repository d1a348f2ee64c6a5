"""What share groups cost: groups that wait for records, and records that are consumed.

`idle`: 1,000 groups of one member, which heartbeats every 5 seconds and waits for records all the
time; goal (issue 41): 10 % of a core. `beats`: the same without fetches. `consume`: Kafka's own
`kafka-share-consumer-perf-test` reads records of 100 bytes; goal: at least as fast as from Apache
Kafka 4.4, which is measured after ours in each round with BENCH_SHARES_PEER=1. CPU is the broker's.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.bench.brokers import Running
from tests.bench.group_client import Wire, find_coordinator
from tests.bench.share_member import ShareMember
from tests.compat.foreign import tool_command
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import BrokerProcess

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
TOPIC, GROUP = "bench", "readers"
GROUPS = int(1_000 * SCALE)
IDLE_SECONDS, HEARTBEAT_SECONDS = 15.0, 5.0
"""A broker asks for a heartbeat every 5 seconds by default."""
RECORDS, RECORD_BYTES, BATCH = int(1_000_000 * SCALE), 100, 160
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
TOOL_S = 300

NewBroker = Callable[..., Any]
Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""
PEER = partial(ApacheKafka, begins_soon=False)


def idle(directory: Path, new_broker: NewBroker = BrokerProcess, *, fetches: bool) -> Measured:
    """Groups whose members wait for records that do not come."""
    most = 2 * GROUPS + 100
    limits = {"network__connections_max": most, "network__connections_per_address_max": most}
    with new_broker(directory, **limits) as process:
        with BlockingClient(process.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
        broker = Running("josefine", process.bootstrap, process.pid)
        cores, requests = uvloop.run(_idle(broker, fetches=fetches))
        name = f"{'idle' if fetches else 'beats'}_{GROUPS}_groups"
        yield name, "percent_of_a_core", 100 * cores
        yield name, "requests_per_s", requests
        yield name, "cpu_us_per_request", 1e6 * cores / requests
        yield name, "resident_mb", broker.resident_mb()


async def _idle(broker: Running, *, fetches: bool) -> tuple[float, float]:
    """(cores used, requests per second)."""
    sent = 0
    members = [
        ShareMember(await Wire.open(broker.bootstrap), f"group-{number}", TOPIC, 1)
        for number in range(GROUPS)
    ]
    await find_coordinator(members[0].wire, "group-0")
    for member in members:
        await member.join()

    async def beat(member: ShareMember, at: int) -> None:
        nonlocal sent
        await asyncio.sleep(HEARTBEAT_SECONDS * at / len(members))
        while True:
            await member.heartbeat()
            sent += 1
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def wait(member: ShareMember) -> None:
        nonlocal sent
        wire = await Wire.open(broker.bootstrap)
        while True:
            await member.fetch(wire)
            sent += 1

    lives = [asyncio.create_task(beat(member, at)) for at, member in enumerate(members)]
    if fetches:
        lives += [asyncio.create_task(wait(member)) for member in members]
    await asyncio.sleep(HEARTBEAT_SECONDS)
    cpu, before, began = broker.cpu_seconds(), sent, time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    seconds = time.perf_counter() - began
    cores, requests = (broker.cpu_seconds() - cpu) / seconds, (sent - before) / seconds
    for task in lives:
        task.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    return cores, requests


def consume(directory: Path, new_broker: NewBroker = BrokerProcess) -> Measured:
    """One Java client that accepts every record."""
    with new_broker(directory) as process:
        broker = Running("josefine", process.bootstrap, process.pid)
        with BlockingClient(process.bootstrap) as client:
            client.create_topics([NewTopic(TOPIC, 1, 1)])
            batch = build_batch([Record(None, b"x" * RECORD_BYTES)] * BATCH)
            for _ in range(RECORDS // BATCH):
                client.produce({TopicPartition(TOPIC, 0): bytearray(batch)})
        server = ("--bootstrap-server", process.bootstrap)
        group = ("--entity-type", "groups", "--entity-name", GROUP)
        earliest = ("--alter", "--add-config", "share.auto.offset.reset=earliest")
        _tool(CONFIGS, *server, *earliest, *group)
        count = RECORDS // BATCH * BATCH
        cpu = broker.cpu_seconds()
        found = _tool(
            PERFORMANCE,
            *server,
            "--topic",
            TOPIC,
            "--group",
            GROUP,
            "--messages",
            str(count),
            "--timeout",
            "60000",
        )
        used = broker.cpu_seconds() - cpu
        header, *rows = [line for line in found.splitlines() if "," in line]
        row = dict(zip(header.split(", "), rows[-1].split(", "), strict=False))
        rate = next(value for name, value in row.items() if "nMsg.sec" in name or "MsgPer" in name)
        yield "consume", "records_per_s", float(rate)
        yield "consume", "broker_cpu_us_per_record", 1e6 * used / count


def _tool(main: str, *arguments: str) -> str:
    command = tool_command(main, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S)
    if done.returncode:
        raise RuntimeError(f"{main}: {done.stdout}{done.stderr}")
    return done.stdout


MEASURES: dict[str, Callable[..., Measured]] = {
    "idle": partial(idle, fetches=True),
    "beats": partial(idle, fetches=False),
    "consume": consume,
}


def main() -> None:
    """BENCH_SHARES chooses measures, like `idle,consume`."""
    wanted = os.environ.get("BENCH_SHARES", ",".join(MEASURES)).split(",")
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    brokers = {"": BrokerProcess} | ({"apache_kafka_": PEER} if _has_peer() else {})
    for number in range(ROUNDS):
        for measure in wanted:
            for prefix, new_broker in brokers.items():
                with tempfile.TemporaryDirectory(prefix="josefine-shares-") as directory:
                    found = MEASURES[measure](Path(directory) / "data", new_broker=new_broker)
                    for name, unit, value in found:
                        values[prefix + name, unit].append(value)
                        at = f"round {number + 1}: {prefix}{name} {unit} {value:.3f}"
                        print(at, file=sys.stderr, flush=True)
    for (name, unit), each in values.items():
        line = {"bench": "shares", "measure": name, "unit": unit, "value": round(median(each), 3)}
        load = round(os.getloadavg()[0], 1)
        print(json.dumps(line | {"rounds": len(each), "load": load}), flush=True)


def _has_peer() -> bool:
    return bool(os.environ.get("BENCH_SHARES_PEER"))


if __name__ == "__main__":
    main()
