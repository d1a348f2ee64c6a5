"""CPU time of requests for several partitions, this checkout's and another commit's.

    python -m tests.bench.parts_load --against REV [--parts 1 4 16] [--connections 1 50]
    python -m tests.bench.parts_load --against REV --of session [...]
    python -m tests.bench.parts_load --against REV --of commit --parts 1 [...]

`produce`: each request has a batch of one 100-byte record for each of its partitions. `fetch`: each
reads such a batch from every partition, without a session. `session`: the incremental fetches of a
session, which find a batch in every fourth partition; `forgetting`: each of these also drops one,
as consumers do whose records they have buffered. `commit`: each commits one offset of a group of
its own (`request_load.py`). Both brokers are started once; they take turns, as often as there are
rounds. Printed is one JSON line per number of connections and partitions: CPU microseconds of the
broker per request, median of the rounds, and the median of the ratios with their range. Where other
programs take the processor, the ratio of the least values is the one to trust.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import uvloop

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.records.builder import build_batch
from josefine_broker.wire import apis, codec
from josefine_broker.wire.entities import metadata
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.bench import load
from tests.bench.against import checkout, python_for, resolve
from tests.bench.brokers import TOPIC, Running, client, create_topic
from tests.support.broker import BrokerProcess

PARTITIONS = 64
FETCH_VERSION = 16


def frame(topic: str, parts: int, size: int) -> bytes:
    """A whole Produce request: one record for each of the first `parts` partitions."""
    batch = bytes(build_batch([load.record_of(size)]))
    named = tuple(ProducePartition(index, memoryview(batch)) for index in range(parts))
    request = ProduceRequest(None, 1, 30_000, (ProduceTopic(topic, None, named),))
    return b"".join(codec.encode_request(apis.PRODUCE, load.VERSION, 1, "load", request))


class Fetching(load.Loop):
    """A connection that fetches, as `load.Loop` produces. With a session, its epoch grows."""

    session_at = -1
    epoch = 0

    def send(self) -> None:
        if self.session_at > 0:
            self.epoch += 1
            load.LENGTH.pack_into(self.request, self.session_at + 4, self.epoch)
        self.sent_ns = time.perf_counter_ns()
        self.transport.write(self.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self.received:
            data = self.received + data
        if len(data) < 4 or len(data) < 4 + load.LENGTH.unpack_from(data)[0]:
            self.received = data
            return
        self.received = b""
        if data[13:15] != b"\0\0" or len(data) < 80:
            self.fail(f"the broker answered {data[:40]!r}")
        self.round_trips.append(time.perf_counter_ns() - self.sent_ns)
        if not self.stopping:
            self.send()


def asked_once(where: tuple[str, int], request: bytes) -> memoryview:
    """The whole answer to a request, without its length."""
    with socket.create_connection(where) as connection:
        connection.sendall(request)
        stream = connection.makefile("rb")
        return memoryview(stream.read(load.LENGTH.unpack(stream.read(4))[0]))


def fetching(where: tuple[str, int], parts: int, kind: str) -> tuple[bytes, int]:
    """The request of each round, and where its session id is (-1: it has none)."""
    wanted = metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = asked_once(where, b"".join(codec.encode_request(apis.METADATA, 12, 1, "load", wanted)))
    topics = codec.decode_response(apis.METADATA, 12, answer)[1].topics
    (topic_id,) = (each.topic_id for each in topics if each.name == TOPIC)

    def request(
        session_id: int, epoch: int, offsets: dict[int, int], *forgotten: ForgottenTopic
    ) -> bytes:
        named = tuple(
            FetchPartition(index, LeaderEpoch(-1), offset, LeaderEpoch(-1), -1, 100)
            for index, offset in offsets.items()
        )
        fetch = FetchRequest(
            -1, 0, 1, 1 << 20, 0, session_id, epoch, (FetchTopic("", topic_id, named),), forgotten
        )
        return b"".join(codec.encode_request(apis.FETCH, FETCH_VERSION, 1, "load", fetch))

    if kind == "fetch":
        return request(0, -1, dict.fromkeys(range(parts), 0)), -1
    every_fourth = range(0, parts, 4)
    opened = request(0, 0, {index: 0 if index in every_fourth else 1 for index in range(parts)})
    session_id = codec.decode_response(apis.FETCH, FETCH_VERSION, asked_once(where, opened))[1][2]
    gone = (ForgottenTopic("", topic_id, (PARTITIONS - 1,)),) if kind == "forgetting" else ()
    again = request(session_id, 1, dict.fromkeys(every_fourth, 0), *gone)
    return again, again.index(load.LENGTH.pack(session_id))


async def run(
    bootstrap: str, kind: str, connections: int, parts: int, size: int, seconds: float
) -> None:
    """The client's process: prints how many requests were answered, and the median round trip."""
    host, port = bootstrap.rsplit(":", 1)
    where = host, int(port)
    loop = asyncio.get_running_loop()
    round_trips: list[int] = []
    failed: asyncio.Future[str] = loop.create_future()
    clients: list[load.Loop] = []
    if kind != "produce":
        asked_once(where, frame(TOPIC, parts, size))
    for _ in range(connections):
        if kind == "produce":
            made = load.Loop(frame(TOPIC, parts, size), round_trips, failed, 0)
        else:
            request, session_at = fetching(where, parts, kind)
            made = Fetching(request, round_trips, failed, 0)
            made.session_at = session_at
        await loop.create_connection(lambda made=made: made, *where)  # type: ignore[misc]
        clients.append(made)
    for each in clients:
        each.send()
    await asyncio.wait([failed], timeout=seconds)
    if failed.done():
        raise SystemExit(failed.result())
    for each in clients:
        each.stopping = True
        each.transport.abort()  # type: ignore[attr-defined]
    done = sorted(round_trips)
    print(json.dumps({"requests": len(done), "p50_us": done[len(done) // 2] / 1000}))


def cpu_us(pid: int) -> float:
    """Of all threads, as the scheduler counts it: finer than the clock ticks of /proc/PID/stat."""
    found = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in found) / 1000


def measured(
    broker: Running, kind: str, connections: int, parts: int, size: int, seconds: float
) -> dict[str, float]:
    if kind == "commit":
        what = TOPIC, kind, connections, seconds, broker.pid
        found: dict[str, float] = json.loads(client("request_load", broker.bootstrap, *what))
        return {**found, "cpu_us": 1e6 * found["cpu_s"] / found["requests"]}
    cpu = cpu_us(broker.pid)
    where = "client", broker.bootstrap, kind, connections, parts, size, seconds
    done: dict[str, float] = json.loads(client("parts_load", *where))
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
                    each.name: measured(
                        each, asked.of, connections, parts, asked.size, asked.seconds
                    )
                    for each in order
                })  # fmt: skip
            line: dict[str, object] = {
                "of": asked.of,
                "connections": connections,
                "partitions": parts,
            }
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
    parser.add_argument(
        "--of", choices=("produce", "fetch", "session", "forgetting", "commit"), default="produce"
    )
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
        bootstrap, kind, connections, parts, size, seconds = sys.argv[2:]
        uvloop.run(run(bootstrap, kind, int(connections), int(parts), int(size), float(seconds)))
    else:
        main()
