"""Microseconds per stage of a one-record produce request: `./build.sh bench broker --stages`.

One broker with 50 connections, acks=1, records of 100 bytes, three times: as it is, which gives the
CPU time of a request; with a clock reading at each stage (staged_broker.py), which gives its parts;
and as it is again. What no stage accounts for is the event loop's, and the kernel's for it: wait,
receive, send.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean

from tests.bench.broker_bench import LOAD_SECONDS, SCALE
from tests.bench.brokers import TOPIC, Running, client, create_topic
from tests.bench.staged_broker import REST
from tests.support.broker import BrokerProcess

CONNECTIONS = 50


def load(broker: Running) -> tuple[int, float]:
    """(requests, CPU seconds of the broker)."""
    cpu = broker.cpu_seconds()
    done = json.loads(client("load", broker.bootstrap, TOPIC, CONNECTIONS, LOAD_SECONDS * SCALE))
    return done["requests"], broker.cpu_seconds() - cpu


@contextmanager
def running(directory: Path, prefix: tuple[str, ...] = ()) -> Iterator[Running]:
    with BrokerProcess(directory, prefix=prefix) as broker:
        create_topic(broker.bootstrap, TOPIC, 1)
        yield Running("josefine", broker.bootstrap, broker.pid)
        broker.stop()  # not killed: it writes its table when it ends


def plain(directory: Path) -> float:
    """CPU microseconds per request."""
    with running(directory) as broker:
        requests, cpu_s = load(broker)
    return cpu_s / requests * 1e6


def staged(directory: Path) -> dict[str, float]:
    """Stage → microseconds per request."""
    output = directory / "stages.json"
    prefix = (sys.executable, "-m", "tests.bench.staged_broker", str(output))
    with running(directory, prefix) as broker:
        requests, _ = load(broker)
    found = json.loads(output.read_text())
    return {
        name: row["seconds"] / requests * 1e6
        for name, row in found["stages"].items()
        if name != REST and row["seconds"] > 0
    }


def report(total_us: float, stages: dict[str, float]) -> Iterator[dict[str, object]]:
    """One line per stage; the last ones are the rest and the sum."""
    rest = {REST: max(0.0, total_us - sum(stages.values())), "total": total_us}
    for name, us in {**stages, **rest}.items():
        yield {
            "measure": f"stage: {name}",
            "unit": "cpu_us_per_request",
            "josefine": round(us, 2),
            "share": round(us / total_us, 3),
        }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="josefine-stages-") as scratch:
        root = Path(scratch)
        before = plain(root / "before")
        stages = staged(root / "staged")
        after = plain(root / "after")
    for line in report(mean((before, after)), stages):
        print(json.dumps(line), flush=True)
