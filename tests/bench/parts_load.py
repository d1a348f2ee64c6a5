"""CPU time of produce requests for several partitions, this checkout's and another commit's.

    python -m tests.bench.parts_load --against REV [--parts 1 4 16] [--connections 1 50]

Each request has a batch of one 100-byte record for each of its partitions. Both brokers are started
once; they take turns, as often as there are rounds. Printed is one JSON line per number of
connections and partitions: CPU microseconds of the broker per request, median of the rounds, and
the median of the ratios with their range. Where other programs take the processor, the ratio of the
least values is the one to trust.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import uvloop

from josefine_broker.records.builder import build_batch
from josefine_broker.wire import apis, codec
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.bench import load
from tests.bench.against import checkout, python_for, resolve
from tests.bench.brokers import TOPIC, Running, client, create_topic
from tests.support.broker import BrokerProcess

PARTITIONS = 64


def frame(topic: str, parts: int, size: int) -> bytes:
    """A whole Produce request: one record for each of the first `parts` partitions."""
    batch = bytes(build_batch([load.record_of(size)]))
    named = tuple(ProducePartition(index, memoryview(batch)) for index in range(parts))
    request = ProduceRequest(None, 1, 30_000, (ProduceTopic(topic, None, named),))
    return b"".join(codec.encode_request(apis.PRODUCE, load.VERSION, 1, "load", request))


async def run(bootstrap: str, connections: int, parts: int, size: int, seconds: float) -> None:
    """The client's process: prints how many requests were answered, and the median round trip."""
    host, port = bootstrap.rsplit(":", 1)
    loop = asyncio.get_running_loop()
    round_trips: list[int] = []
    failed: asyncio.Future[str] = loop.create_future()
    clients = []
    for _ in range(connections):
        made = load.Loop(frame(TOPIC, parts, size), round_trips, failed, 0)
        await loop.create_connection(lambda made=made: made, host, int(port))  # type: ignore[misc]
        clients.append(made)
    for each in clients:
        each.send()
    await asyncio.wait([failed], timeout=seconds)
    if failed.done():
        raise SystemExit(failed.result())
    for each in clients:
        each.stopping = True
        each.transport.abort()
    done = sorted(round_trips)
    print(json.dumps({"requests": len(done), "p50_us": done[len(done) // 2] / 1000}))


def cpu_us(pid: int) -> float:
    """Of all threads, as the scheduler counts it: finer than the clock ticks of /proc/PID/stat."""
    found = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in found) / 1000


def measured(
    broker: Running, connections: int, parts: int, size: int, seconds: float
) -> dict[str, float]:
    cpu = cpu_us(broker.pid)
    where = "client", broker.bootstrap, connections, parts, size, seconds
    done = json.loads(client("parts_load", *where))
    done["cpu_us"] = (cpu_us(broker.pid) - cpu) / done["requests"]
    return done


def compare(brokers: Sequence[Running], asked: argparse.Namespace) -> None:
    for connections in asked.connections:
        for parts in asked.parts:
            rounds = []
            for number in range(asked.rounds):
                # Alternately first: what warms up or slows down then hits both.
                order = brokers if number % 2 else brokers[::-1]
                rounds.append({
                    each.name: measured(each, connections, parts, asked.size, asked.seconds)
                    for each in order
                })  # fmt: skip
            line: dict[str, object] = {"connections": connections, "partitions": parts}
            for figure in ("cpu_us", "p50_us"):
                both = [(r["this"][figure], r["against"][figure]) for r in rounds]
                ratios = [ours / theirs for ours, theirs in both]
                line |= {
                    f"this_{figure}": round(median(ours for ours, _ in both), 1),
                    f"against_{figure}": round(median(theirs for _, theirs in both), 1),
                    f"{figure}_ratio": round(median(ratios), 3),
                    f"{figure}_range": [round(min(ratios), 3), round(max(ratios), 3)],
                    f"least_{figure}_ratio": round(
                        min(ours for ours, _ in both) / min(theirs for _, theirs in both), 3
                    ),
                }
            print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="REV", required=True)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", type=int, default=100, help="bytes of each record")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(checkout(resolve(asked.against)))
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="josefine-parts-")))
        brokers = []
        for name in ("this", "against"):
            broker = stack.enter_context(BrokerProcess(root / name, start=False))
            if name == "against":
                broker.code, broker.python = folder, python_for(folder)
            broker.start()
            create_topic(broker.bootstrap, TOPIC, PARTITIONS)
            brokers.append(Running(name, broker.bootstrap, broker.pid))
        compare(brokers, asked)


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        bootstrap, *numbers, seconds = sys.argv[2:]
        uvloop.run(run(bootstrap, *map(int, numbers), float(seconds)))
    else:
        main()
