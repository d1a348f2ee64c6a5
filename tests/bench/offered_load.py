"""One-record produce requests at a fixed rate: raw frames, no client library.

    python -m tests.bench.offered_load BOOTSTRAP TOPIC RATE SECONDS [CONNECTIONS [SIZE [ACKS]]]

An open loop: each request has a moment when it is due, whether or not those before it have been
answered, and its latency counts from then. A broker that stops for 50 ms is charged for every
request that was due meanwhile; a closed loop would count one. The connections take turns. Prints
one JSON object: the rate reached, and percentiles in microseconds.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence

from tests.bench.load import ERROR_CODE_FROM_END, LENGTH, frame

WARM_UP = 0.2
"""Share of the requests that come first and are not counted."""
END_S = 30.0
"""How long the last answers may take."""


class Line:
    """One connection: what was sent and not answered yet, by when it was due. Mutable."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due: deque[float] = deque()
        self.received = b""

    def answers(self) -> list[float]:
        """When each request that is answered now was due. Raises SystemExit for an error code."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise SystemExit("the broker closed the connection")
        self.received += data
        found = []
        while len(self.received) >= 4:
            end = 4 + LENGTH.unpack_from(self.received)[0]
            if len(self.received) < end:
                break
            code = self.received[:end][-ERROR_CODE_FROM_END:][:2]
            if code != b"\x00\x00":
                raise SystemExit(f"the broker answered error {int.from_bytes(code, 'big')}")
            self.received = self.received[end:]
            found.append(self.due.popleft())
        return found


def run(
    bootstrap: str, topic: str, rate: float, seconds: float, connections: int, size: int, acks: int
) -> dict[str, float]:
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    request = frame(topic, size, acks)
    lines = {}
    for _ in range(connections):
        line = Line((host, int(port)))
        lines[line.socket] = line
    turns = list(lines.values())
    count = max(int(rate * seconds), 10)
    counted_from = int(count * WARM_UP)
    started = time.perf_counter()
    latencies: list[float] = []
    sent = answered = 0
    deadline = started + seconds + END_S
    # select takes microseconds where epoll rounds a timeout up to whole milliseconds.
    while answered < count:
        now = time.perf_counter()
        while sent < count and started + sent / rate <= now:
            line = turns[sent % connections]
            line.due.append(started + sent / rate)
            line.socket.sendall(request)
            sent += 1
        wait_s = max(0.0, started + sent / rate - time.perf_counter()) if sent < count else 1.0
        for ready in select.select(list(lines), [], [], wait_s)[0]:
            found = lines[ready].answers()
            now = time.perf_counter()
            for due in found:
                answered += 1
                if answered > counted_from:
                    latencies.append(now - due)
        if now > deadline:
            raise SystemExit(f"{count - answered} of {count} requests were not answered")
    elapsed = time.perf_counter() - started
    for line in turns:
        line.socket.close()
    return {"rate": count / elapsed, **percentiles(latencies)}


def percentiles(latencies: Sequence[float]) -> dict[str, float]:
    """p50, p99, p99.9 and the longest, in microseconds."""
    done = sorted(latencies)
    last = len(done) - 1
    ranks = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999, "max_us": 1.0}
    return {name: round(done[round(last * rank)] * 1e6, 1) for name, rank in ranks.items()}


if __name__ == "__main__":
    bootstrap, topic, rate, seconds, *rest = sys.argv[1:]
    connections, size, acks = [*map(int, rest), *(10, 100, 1)[len(rest) :]]
    found = run(bootstrap, topic, float(rate), float(seconds), connections, size, acks)
    print(json.dumps(found))
