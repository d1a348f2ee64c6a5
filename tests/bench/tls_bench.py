"""What security and looking cost: records over TLS, the question of an ACL, an open dashboard.

`stream`: librdkafka produces and consumes over TLS 1.3, one connection, our broker and an Apache
Kafka with TLS turn about, both warm; CPU is the brokers' own. `ratio` is Kafka's seconds (or CPU)
by ours, the median of the rounds' ratios: above 1 is better than Kafka. `plain` is the same without
TLS, of ours alone. `acl` is the answer to a request with rules among 10,000 ACLs less the answer
without, in this process. `dashboard` is the CPU of its process with one page open, and the broker's
with that less without.
Goals (issue 17): ratio 1.0, ACL 2 us, dashboard 1 % of a core. BENCH_TLS chooses, as in
`BENCH_TLS=acl,dashboard ./build.sh bench tls`; without Maven or Java there is no Kafka beside.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from statistics import median
from timeit import repeat
from typing import Any, NamedTuple

from josefine_broker.api.access import guarded
from josefine_broker.base.acls import Acl, Operation, PatternType, Permission, ResourceType
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import AlterAcls
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis
from josefine_broker.wire.codec import RequestHeader
from tests.bench.brokers import Running, client, create_topic, wait_until_quiet
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.dashboard import dashboard_process
from tests.support.maven import NoJarsError
from tests.support.ports import free_ports
from tests.support.waiting import wait_until
from tests.unit.josefine_broker.api.test_table import empty_request
from tests.unit.josefine_broker.api.world import World, fetch_request

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
PARTS = os.environ.get("BENCH_TLS", "stream,acl,dashboard").split(",")
RECORDS = {100: int(1_000_000 * SCALE), 1000: int(200_000 * SCALE)}
WARM_UPS = 3
"""Of each kind and size: a JVM compiles what it has done often."""
WARM_UP_PART = 4
"""Each has that part of a round's records."""
ACLS = 10_000
LOOK_SECONDS = 20.0 * min(1.0, SCALE)
PIPELINES_SECONDS = 5.0
"""Between two looks of the page at pipelines."""

Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Peer(NamedTuple):
    """A broker with a listener for TLS, and the settings of its clients there."""

    running: Running
    bootstrap: str
    settings: tuple[str, ...] = ()


def start_ours(stack: ExitStack, directory: Path, authority: Authority) -> tuple[Peer, Peer]:
    """Over TLS and in plaintext, the same process."""
    own, (tls, plain) = authority.issue("ours"), free_ports(2)
    broker = stack.enter_context(
        BrokerProcess(
            directory / "ours",
            broker__listeners=[f"PLAINTEXT://127.0.0.1:{plain}", f"SSL://127.0.0.1:{tls}"],
            tls__certificate=str(own.certificate),
            tls__key=str(own.key),
        )
    )
    running = Running("josefine", broker.bootstrap, broker.pid)
    return Peer(running, f"127.0.0.1:{tls}", words(authority)), Peer(running, broker.bootstrap)


def start_theirs(stack: ExitStack, directory: Path, authority: Authority) -> Peer | None:
    pem = authority.issue("theirs").pem_of_java()
    try:
        broker = ApacheKafka(directory / "theirs", begins_soon=False, pem=pem)
    except NoJarsError as error:
        say(f"no Apache Kafka beside: {error}")
        return None
    stack.enter_context(broker)
    running = Running("kafka", broker.bootstrap, broker.pid)
    return Peer(running, broker.tls_bootstrap, words(authority))


def words(authority: Authority) -> tuple[str, ...]:
    return ("security.protocol=SSL", f"ssl.ca.location={authority.certificate}")


def stream_once(peer: Peer, size: int, count: int, topic: str) -> Iterator[tuple[str, float]]:
    """Write it, read it: (measure, value)."""
    create_topic(peer.running.bootstrap, topic, 1)
    for verb, settings in (("produce", ("acks=1",)), ("consume", ())):
        name = f"{verb}_{'100B' if size == 100 else '1KB'}"
        cpu = peer.running.cpu_seconds()
        arguments = (verb, peer.bootstrap, topic, count, size, *settings, *peer.settings)
        done = json.loads(client("librdkafka", *arguments))
        wait_until_quiet(peer.running)
        yield f"{name}/mb_per_s", done["bytes"] / done["seconds"] / 1e6
        yield f"{name}/cpu_s_per_gb", (peer.running.cpu_seconds() - cpu) / done["bytes"] * 1e9


def stream(directory: Path) -> Iterator[dict[str, object]]:
    authority = Authority(directory / "ca")
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with ExitStack() as stack:
        ours, plain = start_ours(stack, directory, authority)
        theirs = start_theirs(stack, directory, authority)
        peers = {"josefine": ours, "plain": plain} | ({"kafka": theirs} if theirs else {})
        for number in range(-WARM_UPS, ROUNDS):
            names = list(peers) if number % 2 else list(peers)[::-1]
            for name in names:
                if number < 0 and name == "plain":
                    continue
                values: dict[str, float] = {}
                for size, records in RECORDS.items():
                    count = records if number >= 0 else records // WARM_UP_PART
                    topic = f"{name}-{size}-{number}".replace("--", "-warm-")
                    values |= dict(stream_once(peers[name], size, count, topic))
                if number >= 0:
                    found[name].append(values)
                    for measure, value in values.items():
                        say(f"round {number} {name:9} {measure:28} {value:10,.2f}")
    yield from told(found)


def told(found: dict[str, list[dict[str, float]]]) -> Iterator[dict[str, object]]:
    for measure in found["josefine"][0]:
        name, unit = measure.split("/")
        line: dict[str, object] = {"measure": f"tls_{name}", "unit": unit}
        for who, rounds in found.items():
            line[who] = round(median(values[measure] for values in rounds), 2)
        pairs = zip(found["josefine"], found.get("kafka", ()), strict=False)
        ratios = [ours[measure] / theirs[measure] for ours, theirs in pairs]
        if ratios:
            ratio = median(ratios)
            line["ratio"] = round(1 / ratio if unit == "cpu_s_per_gb" else ratio, 3)
        yield line | {"rounds": ROUNDS}


ALICE = "User:alice"


def acl(directory: Path) -> Measured:
    """Requests of four kinds, each of one topic or group that its client may use."""
    world = World()
    world.create("t")
    rules = [(Operation.WRITE, ResourceType.TOPIC), (Operation.READ, ResourceType.TOPIC),
             (Operation.READ, ResourceType.GROUP)]  # fmt: skip
    add = [Acl(k, "t", PatternType.LITERAL, ALICE, "*", o, Permission.ALLOW) for o, k in rules]
    for number in range(ACLS - len(add)):
        name, kind = f"other-{number}", ResourceType.TOPIC
        add.append(
            Acl(kind, name, PatternType.LITERAL, ALICE, "*", Operation.READ, Permission.ALLOW)
        )
    world.propose(AlterAcls(add=tuple(add)))
    info = RequestInfo(RequestHeader(0, 12, 1, "c", 0), ALICE, "10.0.0.1:5000", "SSL")
    requests = {
        apis.PRODUCE: empty_request(apis.PRODUCE, 12),
        apis.FETCH: fetch_request(topic="t"),
        apis.HEARTBEAT: empty_request(apis.HEARTBEAT, 4),
        apis.OFFSET_COMMIT: empty_request(apis.OFFSET_COMMIT, 9),
    }
    for key, request in requests.items():
        ask = partial(guarded(key, _answer, _refuse), world.ctx, info, request)
        world.ctx.clients.authorizer = None
        without = best_us(ask)
        world.ctx.clients.authorizer = Authorizer(frozenset({"User:root"}))
        assert ask() is request, "it may"
        yield f"acl_{apis.APIS[key].name}", "us_per_request", best_us(ask) - without


def _answer(ctx: Context, info: RequestInfo, request: Any) -> Any:
    return request


def _refuse(request: Any, error: Exception) -> Any:
    raise AssertionError(f"it may: {error}")


def best_us(ask: Callable[[], object]) -> float:
    """Of many: what the machine does besides is not ours."""
    return 1e6 * min(repeat(ask, number=1_000, repeat=100)) / 1_000


def look(directory: Path) -> Measured:
    """A broker of 50 topics, and a page at its dashboard, as app.js looks."""
    with BrokerProcess(directory / "looked-at") as broker:
        with BlockingClient(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(f"t{number}", partitions=2) for number in range(50)])
        running = Running("josefine", broker.bootstrap, broker.pid)
        with dashboard_process(broker) as (url, pid):
            board = Running("dashboard", url, pid)
            idle = share(running)
            ended = threading.Event()
            events: list[bytes] = []
            threads = [
                threading.Thread(target=_listen, args=(url, ended, events), daemon=True),
                threading.Thread(target=_ask_pipelines, args=(url, ended), daemon=True),
            ]
            for each in threads:
                each.start()
            wait_until(lambda: bool(events), 30, "the page to be told something")
            own = board.cpu_seconds()
            looked = share(running)
            own = (board.cpu_seconds() - own) / LOOK_SECONDS
            ended.set()
    yield "dashboard_one_page", "percent_of_a_core", 100 * own
    yield "dashboard_one_page_broker_more", "percent_of_a_core", 100 * (looked - idle)


def share(running: Running) -> float:
    """Of a core, for LOOK_SECONDS from now on."""
    before, began = running.cpu_seconds(), time.monotonic()
    time.sleep(LOOK_SECONDS)
    return (running.cpu_seconds() - before) / (time.monotonic() - began)


def _listen(url: str, ended: threading.Event, events: list[bytes]) -> None:
    with suppress(OSError), urllib.request.urlopen(f"{url}/api/events", timeout=60) as answer:
        while not ended.is_set():
            events.append(answer.readline())


def _ask_pipelines(url: str, ended: threading.Event) -> None:
    while not ended.wait(PIPELINES_SECONDS):
        with (
            suppress(OSError),
            urllib.request.urlopen(f"{url}/api/pipelines", timeout=60) as answer,
        ):
            answer.read()


def singly(measure: Callable[[Path], Measured]) -> Callable[[Path], Iterator[dict[str, object]]]:
    def lines(directory: Path) -> Iterator[dict[str, object]]:
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for number in range(ROUNDS):
            for name, unit, value in measure(directory / str(number)):
                say(f"round {number} {name:32} {value:10,.2f} {unit}")
                found[name, unit].append(value)
        for (name, unit), values in found.items():
            value = round(median(values), 3)
            yield {"measure": name, "unit": unit, "josefine": value, "rounds": ROUNDS}

    return lines


MEASURES: dict[str, Callable[[Path], Iterator[dict[str, object]]]] = {
    "stream": stream,
    "acl": singly(acl),
    "dashboard": singly(look),
}


def main() -> None:
    for part in PARTS:
        if part not in MEASURES:
            raise SystemExit(f"BENCH_TLS knows {', '.join(MEASURES)}, not {part!r}")
    for part in PARTS:
        with tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory:
            for line in MEASURES[part](Path(directory)):
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
