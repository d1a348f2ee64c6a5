"""Real brokers that form a cluster, for tests: each a `josefine broker` process of its own.

Ports are chosen before anybody starts, because each broker must know where the others will be; a
port that somebody else took meanwhile (no test does, see tests/support/ports.py) is noticed at the
start, and the cluster is laid out anew.
Use `with Cluster(tmp_path) as cluster`: nothing is left running, however the test ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.support.broker import START_TIMEOUT_S, BrokerProcess
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

DEFAULT_TIMINGS: dict[str, Any] = {}
"""The configuration's own."""
FAST_TIMINGS: dict[str, Any] = {
    "raft__heartbeat_timeout_ms": 30,
    "raft__election_timeout_ms": 150,
    "cluster__heartbeat_interval_ms": 75,
    "cluster__session_timeout_ms": 300,
}
"""The fast profile of docs/how-to/cluster.md, for a quiet machine: where the tests run, brokers
stand still for longer than this, and lose leaderships that nobody had to move."""
REPLICATED: dict[str, Any] = {
    "topic_defaults__replication_factor": 3,
    "topic_defaults__min_insync_replicas": 2,
}
SETTLE_TIMEOUT_S = 60.0
PORT_ATTEMPTS = 3


class Cluster:
    """`brokers` voters, numbered from 1. `overrides` are configuration keys of every broker, with
    `__` for the dot; they win over `timings`."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        *,
        timings: dict[str, Any] = DEFAULT_TIMINGS,
        start: bool = True,
        prefix: Callable[[int], tuple[str, ...]] = lambda _: (),
        **overrides: Any,
    ) -> None:
        """`prefix`: what the process of a broker is to run under."""
        self.directory = Path(directory)
        self._prefix = prefix
        self.overrides = {**timings, **overrides}
        self.voters = tuple(range(1, brokers + 1))
        self.brokers: dict[int, BrokerProcess] = {}
        self._raft_ports: dict[int, int] = {}
        self._paused: set[int] = set()
        self._lay_out()
        if start:
            self.start()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- life

    def start(self) -> None:
        """Start every broker and wait until all serve."""
        for attempt in range(PORT_ATTEMPTS):
            try:
                self.spawn(*self.voters)
                self.wait_serving(*self.voters)
                return
            except AssertionError:
                if attempt + 1 == PORT_ATTEMPTS or not self._port_was_taken():
                    self.close()
                    raise
                self.close()
                self._lay_out()

    def spawn(self, *ids: int) -> None:
        """Start processes without waiting for them."""
        for id_ in ids:
            self.brokers[id_].spawn()

    def wait_serving(self, *ids: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Until each of these brokers accepts clients."""
        for id_ in ids:
            self.brokers[id_].wait_serving(timeout_s)

    def broker(self, id_: int) -> BrokerProcess:
        return self.brokers[id_]

    def kill(self, id_: int) -> None:
        """kill -9."""
        self.brokers[id_].kill()
        self._paused.discard(id_)

    def stop(self, id_: int) -> int:
        """SIGTERM; the exit code."""
        return self.brokers[id_].stop()

    def restart(self, id_: int) -> None:
        """Start again with the same data on the same ports; stops it first if it runs."""
        self.brokers[id_].restart()

    def pause(self, id_: int) -> None:
        """SIGSTOP: alive for the kernel, silent for the others."""
        os.kill(self.brokers[id_].pid, signal.SIGSTOP)
        self._paused.add(id_)

    def resume(self, id_: int) -> None:
        os.kill(self.brokers[id_].pid, signal.SIGCONT)
        self._paused.discard(id_)

    def join(self, id_: int, *, seeds: tuple[int, ...] = (1,), start: bool = True) -> BrokerProcess:
        """A new broker that is told only where some others are; waits until it serves."""
        (self._raft_ports[id_],) = free_ports(1)
        addresses = [f"127.0.0.1:{self._raft_ports[each]}" for each in seeds]
        broker = self.brokers[id_] = self._new_broker(id_, raft__seeds=addresses)
        if start:
            broker.start()
        return broker

    def close(self) -> None:
        """kill -9 for whoever still runs, in one go."""
        for broker in self.brokers.values():
            if broker.alive:
                os.kill(broker.pid, signal.SIGKILL)
        for broker in self.brokers.values():
            with contextlib.suppress(AssertionError):
                broker.close()
        self._paused.clear()

    # -- what it is like

    @property
    def alive(self) -> tuple[int, ...]:
        """Brokers that run and are not paused."""
        return tuple(
            id_ for id_, each in self.brokers.items() if each.alive and id_ not in self._paused
        )

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers that ever served, for a client."""
        return ",".join(each.bootstrap for each in self.brokers.values() if each.bootstrap)

    def view(self, id_: int) -> dict[str, Any]:
        """`/cluster` of one broker; empty while it does not answer."""
        with contextlib.suppress(OSError, ValueError, HTTPException):  # it may die in mid answer
            status, body = self.brokers[id_].get("/cluster")
            if status == 200:
                view: dict[str, Any] = json.loads(body)
                return view
        return {}

    def controller(self, timeout_s: float = SETTLE_TIMEOUT_S) -> int:
        """The broker that leads Raft, by its own word."""

        def leading() -> int | None:
            views = [self.view(id_) for id_ in self.alive]
            leaders = [each for each in views if each and each["raft"]["role"] == "leader"]
            if not leaders:
                return None
            return int(max(leaders, key=lambda each: each["raft"]["term"])["broker_id"])

        return wait_until(leading, timeout_s, "a controller") or 0

    def partition(self, topic: str, index: int) -> dict[str, Any]:
        """A partition as the controller's image has it; empty while nobody knows it."""
        for each in self.view(self.controller()).get("partitions", ()):
            if (each["topic"], each["partition"]) == (topic, index):
                found: dict[str, Any] = each
                return found
        return {}

    def leader_of(self, topic: str, index: int = 0, *, but: int = -1) -> int:
        """The broker that leads a partition; another one than `but`."""

        def leader() -> int | None:
            found = int(self.partition(topic, index).get("leader", -1))
            return found if found not in (-1, but) else None

        return wait_until(leader, SETTLE_TIMEOUT_S, f"a leader of {topic}-{index}") or 0

    def wait_settled(self, timeout_s: float = SETTLE_TIMEOUT_S) -> list[dict[str, Any]]:
        """Until all is as it should be with the brokers that are alive; their views.

        Each of them serves in every view, every partition has a leader, each ISR is the live
        replicas, nothing is being reassigned, and all images are equal at one height.
        """
        last = ["nothing was asked"]

        def settled() -> list[dict[str, Any]] | None:
            views = [self.view(id_) for id_ in self.alive]
            last[0] = unsettled(views, set(self.alive))
            return None if last[0] else views

        try:
            return wait_until(settled, timeout_s, "a settled cluster") or []
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[0]}") from None

    # -- layout

    def _lay_out(self) -> None:
        self._raft_ports = dict(zip(self.voters, free_ports(len(self.voters)), strict=True))
        voters = [f"{id_}@127.0.0.1:{port}" for id_, port in self._raft_ports.items()]
        for id_ in self.voters:
            self.brokers[id_] = self._new_broker(id_, raft__voters=voters)

    def _new_broker(self, id_: int, **raft: object) -> BrokerProcess:
        settings = {
            "broker__id": id_,
            "raft__listener": f"127.0.0.1:{self._raft_ports[id_]}",
            **raft,
            **self.overrides,
        }
        directory, prefix = self.directory / f"broker-{id_}", self._prefix(id_)
        return BrokerProcess(directory, start=False, prefix=prefix, **settings)

    def _port_was_taken(self) -> bool:
        return any("address already in use" in each.output.lower() for each in self._all())

    def _all(self) -> list[BrokerProcess]:
        return list(self.brokers.values())


def unsettled(views: list[dict[str, Any]], alive: set[int]) -> str:
    """Why these views of the brokers `alive` are not yet those of a settled cluster; or empty."""
    if not views or not all(views):
        return "a broker does not answer"
    for view in views:
        serving = {each["id"] for each in view["brokers"] if _is_live(each)}
        if serving != alive:
            return f"broker {view['broker_id']} sees {sorted(serving)} serve, not {sorted(alive)}"
        for each in view["partitions"]:
            live = [replica for replica in each["replicas"] if replica in alive]
            name = f"{each['topic']}-{each['partition']} at broker {view['broker_id']}"
            if each["leader"] not in live:
                return f"{name} is led by {each['leader']}"
            if sorted(each["isr"]) != sorted(live) or each["adding"] or each["removing"]:
                return f"{name} has isr {each['isr']} of {each['replicas']}"
    images = {(each["image"]["height"], each["image"]["digest"]) for each in views}
    return "" if len(images) == 1 else f"images differ: {sorted(images)}"


def _is_live(broker: dict[str, Any]) -> bool:
    return not broker["fenced"] and not broker["shutting_down"]
