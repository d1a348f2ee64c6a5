"""A partition's leader is killed: how long producers are silent, and what takes how long.

Two producers write to the partition with acks=all: our own client, which asks again within tens of
milliseconds, so that its gap is the cluster's, and librdkafka with its defaults for retries. Of
our brokers also a timeline: `/cluster` of a survivor is read every few milliseconds, and shows when
the dead broker is fenced and when the partition has its next leader; what is left until the first
acknowledgement is the client's and the ISR's.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import KAFKA, OURS, Served, Start, start_three
from tests.bench.cluster_gap import gaps_of
from tests.support.waiting import wait_until

KILLS, QUICK_KILLS = 5, 2
"""Of each round's cluster: the broker is started again after each."""
LOOK_S = 0.004
IN_SYNC_S = 120.0
AFTER_S = {OURS: 6.0, KAFKA: 25.0}
"""How long the producers write after the kill: Apache Kafka's session ends after 9 s."""


def cases(options: Options) -> list[Case]:
    kills = QUICK_KILLS if options.quick else KILLS
    return [Case(name="leader-killed", run=partial(measure, kills=kills))]


def measure(start: Start, directory: Path, *, kills: int) -> Iterator[Sample]:
    """One value per kill: the report has their median, spread, and p99."""
    with start(directory) as served:
        topic = served.topic(copies=3)
        everyone = served.in_sync(topic)
        longest: dict[str, float] = {}
        for _ in range(kills):
            leader = served.leader(topic)
            for row, name, unit, value in one_kill(served, topic, leader):
                yield row, name, unit, value
                if name.startswith("gap"):
                    longest[name] = max(value, longest.get(name, 0))
            served.brokers[leader].spawn()
            wait_until(lambda: served.in_sync(topic) == everyone, IN_SYNC_S, "all in sync again")
        for name, value in longest.items():
            yield f"the longest of {kills}", name, "s", value


def one_kill(served: Served, topic: str, leader: int) -> Iterator[Sample]:
    row = "leader killed (-9)"
    watch = Watch(served, topic, leader) if served.name == OURS else None
    gaps, again, killed = gaps_of(
        served.bootstrap, topic, 0, lambda: served.kill(leader), AFTER_S[served.name]
    )
    yield row, "gap, our client", "s", gaps["own_client"]
    yield row, "gap, librdkafka", "s", gaps["librdkafka"]
    if watch is not None:
        acknowledged = {
            "first acknowledgement, our client": again["own_client"],
            "first acknowledgement, librdkafka": again["librdkafka"],
        }
        for name, at in (watch.end() | acknowledged).items():
            yield "timeline after the kill", name, "s", at - killed


class Watch:
    """Reads a survivor's `/cluster` until it is ended. Mutable: what it saw, and when first."""

    def __init__(self, served: Served, topic: str, leader: int) -> None:
        survivor = next(id_ for id_ in served.brokers if id_ != leader)
        self._url = served.brokers[survivor].admin_url + "/cluster"
        self._topic, self._leader = topic, leader
        self._seen: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> dict[str, float]:
        """What was seen → when, on `time.perf_counter`'s clock."""
        self._ended.set()
        self._thread.join()
        return self._seen

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            with suppress(OSError, ValueError, HTTPException):
                with urllib.request.urlopen(self._url, timeout=5) as answer:
                    view = json.load(answer)
                for name, is_seen in MOMENTS.items():
                    if name not in self._seen and is_seen(view, self._topic, self._leader):
                        self._seen[name] = time.perf_counter()


def _is_fenced(view: dict[str, Any], _: str, leader: int) -> bool:
    return any(each["id"] == leader and each["fenced"] for each in view["brokers"])


def _has_next_leader(view: dict[str, Any], topic: str, leader: int) -> bool:
    return any(
        each["topic"] == topic and each["leader"] not in (-1, leader) for each in view["partitions"]
    )


MOMENTS: dict[str, Callable[[dict[str, Any], str, int], bool]] = {
    "broker fenced in the metadata": _is_fenced,
    "next leader in the metadata": _has_next_leader,
}

AREA = Area(
    name="failover",
    title="Leader killed: the producers' gap",
    peer="Apache Kafka",
    row_title="what",
    settings=(
        "Three brokers a side with their default timeouts, three copies, acks=all, "
        "min.insync.replicas=2. The leader of the only partition is killed with SIGKILL under two "
        "producers; the gap is the longest time between two acknowledgements after it. Our client "
        "asks again within tens of milliseconds; librdkafka looks for a lost leader by its own "
        "timers. Each kill is one round."
    ),
    open=start_three,
    cases=cases,
)
