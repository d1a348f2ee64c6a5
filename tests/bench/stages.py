"""Microseconds per stage of a small request: `./build.sh bench broker --stages [KIND ...]`.

KIND is `produce` (the default: one record of 100 bytes, acks=1) or one of request_load.py: `fetch`,
`session`, `wait`, `heartbeat`, `commit`. One broker with 50 connections, three times: as it is,
which gives the CPU time of a request; with a clock reading at each stage (staged_broker.py), which
gives its parts; and as it is again. What no stage accounts for is the event loop's, and the
kernel's for it: wait, receive, send; for `commit` also the thread's that syncs.

`replicate` is one record of 100 bytes at a time with acks=all (staged_replicas.py): three brokers,
the stages of the leader and those of a follower, and the round trip.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import mean

from tests.bench.broker_bench import LOAD_SECONDS, OTHER_REQUESTS, SCALE
from tests.bench.brokers import TOPIC, Running, client, create_topic
from tests.bench.staged_broker import REST
from tests.support.broker import BrokerProcess

CONNECTIONS = 50
PRODUCE = "produce"
REPLICATE = "replicate"
KINDS = (PRODUCE, *OTHER_REQUESTS, REPLICATE)


def load(broker: Running, kind: str) -> tuple[int, float]:
    """(requests, CPU seconds of the broker)."""
    cpu, seconds = broker.cpu_seconds(), LOAD_SECONDS * SCALE
    where = broker.bootstrap, TOPIC
    if kind == PRODUCE:
        text = client("load", *where, CONNECTIONS, seconds)
    else:
        text = client("request_load", *where, kind, CONNECTIONS, seconds, broker.pid)
    done = json.loads(text)
    return done["requests"], done.get("cpu_s", broker.cpu_seconds() - cpu)


@contextmanager
def running(directory: Path, prefix: tuple[str, ...] = ()) -> Iterator[Running]:
    with BrokerProcess(directory, prefix=prefix) as broker:
        create_topic(broker.bootstrap, TOPIC, CONNECTIONS)
        yield Running("josefine", broker.bootstrap, broker.pid)
        broker.stop()  # not killed: it writes its table when it ends


def plain(directory: Path, kind: str) -> float:
    """CPU microseconds per request."""
    with running(directory) as broker:
        requests, cpu_s = load(broker, kind)
    return cpu_s / requests * 1e6


def staged(directory: Path, kind: str) -> dict[str, float]:
    """Stage → microseconds per request."""
    output = directory / "stages.json"
    prefix = (sys.executable, "-m", "tests.bench.staged_broker", str(output))
    with running(directory, prefix) as broker:
        os.environ["BENCH_STAGED"] = "1"
        requests, _ = load(broker, kind)
        del os.environ["BENCH_STAGED"]
    found = json.loads(output.read_text())
    return {
        name: row["seconds"] / requests * 1e6
        for name, row in found["stages"].items()
        if name != REST and row["seconds"] > 0
    }


def report(
    total_us: float, stages: dict[str, float], kind: str = PRODUCE
) -> Iterator[dict[str, object]]:
    """One line per stage; the last ones are the rest and the sum."""
    rest = {REST: max(0.0, total_us - sum(stages.values())), "total": total_us}
    for name, us in {**stages, **rest}.items():
        yield {
            "measure": f"stage: {name}" if kind == PRODUCE else f"{kind}, stage: {name}",
            "unit": "cpu_us_per_request",
            "josefine": round(us, 2),
            "share": round(us / total_us, 3),
        }


def main(kinds: Sequence[str] = ()) -> None:
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise SystemExit(
            f"bench broker --stages: unknown kind of request {unknown[0]!r}; "
            f"name some of {', '.join(KINDS)}"
        )
    for kind in kinds or (PRODUCE,):
        if kind == REPLICATE:
            # It needs three brokers, and this module for its lines.
            import_module("tests.bench.staged_replicas").main()
            continue
        with tempfile.TemporaryDirectory(prefix="josefine-stages-") as scratch:
            root = Path(scratch)
            before = plain(root / "before", kind)
            stages = staged(root / "staged", kind)
            after = plain(root / "after", kind)
        for line in report(mean((before, after)), stages, kind):
            print(json.dumps(line), flush=True)
