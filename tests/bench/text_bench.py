"""How fast the text protocol is: one line after the other, and many that wait for no reply.

Clients are plain sockets in this process. A value is the median over BENCH_ROUNDS. Goals (issue
16): PUBS p50 under 2 ms on one broker and under 10 ms with acks=all on three, whoever is asked;
10,000 pipelined PUBS/s on one connection.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from josefine_cli.base.latencies import Latencies
from tests.support.broker import BrokerProcess
from tests.support.cluster import REPLICATED, Cluster
from tests.support.text import TextSocket, text_address

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
SINGLE = int(1_000 * SCALE)
PIPELINED = int(50_000 * SCALE)
PIECE = 1_000
LINE = b'PUBS bench {"Key":"k","Body":"%0100d"}\n'

Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def one_by_one(client: TextSocket) -> Latencies:
    """Until each Done."""
    took = Latencies()
    for n in range(SINGLE):
        began = time.perf_counter()
        client.send(LINE % n)
        assert client.reply() == "Done"
        took.add((time.perf_counter() - began) * 1_000)
    return took


def pipelined(client: TextSocket) -> float:
    """PUBS/s; a thousand are on their way at a time."""
    began = time.perf_counter()
    for at in range(0, PIPELINED, PIECE):
        client.send(b"".join(LINE % n for n in range(at, at + PIECE)))
        assert all(client.reply() == "Done" for _ in range(PIECE))
    return PIPELINED / (time.perf_counter() - began)


def measured(where: str, client: TextSocket) -> Measured:
    quantiles = one_by_one(client).quantiles()
    for name in ("p50", "p99"):
        yield f"PUBS, {where}, {name}", "ms", quantiles[name]
    yield f"PUBS, {where}, pipelined", "1/s", pipelined(client)


def on_one(directory: Path) -> Measured:
    with BrokerProcess(directory, text__port=0) as broker, TextSocket(text_address(broker)) as text:
        assert text.say("CRTP bench") == "Done"
        yield from measured("one broker", text)


def on_three(directory: Path) -> Measured:
    """acks=all of three replicas; the leader is asked, and one who has to ask it."""
    with Cluster(directory, **REPLICATED, text__port=0) as cluster:
        clients = [TextSocket(text_address(cluster.broker(each))) for each in (1, 2, 3)]
        assert clients[0].say("CRTP bench") == "Done"
        leader = cluster.leader_of("bench")
        yield from measured("three brokers, of the leader", clients[leader - 1])
        yield from measured("three brokers, of another", clients[leader % 3])


def rounds(measure: Callable[[Path], Measured]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[float]] = {}
    for n in range(ROUNDS):
        say(f"{measure.__name__}: round {n + 1} of {ROUNDS}")
        with tempfile.TemporaryDirectory() as directory:
            for name, unit, value in measure(Path(directory)):
                found.setdefault((name, unit), []).append(value)
    return [
        {"measure": name, "unit": unit, "value": round(median(values), 3)}
        for (name, unit), values in found.items()
    ]


def main() -> None:
    for measure in (on_one, on_three):
        for line in rounds(measure):
            print(json.dumps({"bench": "text", **line}), flush=True)
