"""Hosts of a test in network namespaces of its own, on one switch, with faults between them.

Everything lives in namespaces that the lab made and removes: nothing of the machine's own network
is touched. What needs the network of a host runs in a thread that has entered its namespace; the
threads it starts in turn (librdkafka's) stay there too.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cluster import Cluster
from tests.support.slow_wire import SlowWire, open_tap

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
NETWORK = "10.77.0"
CLIENT = 100
"""The host that clients and tests look from."""
KAFKA_PORT, RAFT_PORT, ADMIN_PORT = 9092, 9093, 9644


class Lab:
    """`with Lab(1, 2, 3) as lab:` three hosts and a client's. Skips the test where the machine
    does not let it."""

    def __init__(self, *hosts: int) -> None:
        self.hosts = (*hosts, CLIENT)
        self._prefix = f"josefine-{os.getpid()}"
        self._switch = f"{self._prefix}-switch"
        self._made: list[str] = []
        self._wires: dict[int, SlowWire] = {}

    def __enter__(self) -> Lab:
        if os.geteuid() or not shutil.which("ip"):
            pytest.skip("network namespaces need root and the ip command")
        try:
            self._build()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            pytest.skip(f"network namespaces do not work here: {error.stderr.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        while self._wires:
            self._wires.popitem()[1].close()
        while self._made:
            _run("ip", "netns", "delete", self._made.pop(), check=False)

    def address(self, host: int) -> str:
        return f"{NETWORK}.{host}"

    def name(self, host: int) -> str:
        return f"{self._prefix}-{host}"

    def inside(self, host: int, work: Callable[[], T]) -> T:
        """`work()` in a thread that sees this host's network; its result or exception."""
        return self._inside(self.name(host), work)

    def _inside(self, name: str, work: Callable[[], T]) -> T:
        result: list[T] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                with Path(f"/run/netns/{name}").open("rb") as namespace:
                    libc = ctypes.CDLL(None, use_errno=True)
                    if libc.setns(namespace.fileno(), CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns")
                result.append(work())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failure:
            raise failure[0]
        return result[0]

    def bytes_sent(self, *hosts: int) -> int:
        """What these hosts have put on the network so far, headers and all."""
        total = 0
        for host in hosts:
            shown = _run("ip", "-n", self.name(host), "-s", "-j", "link", "show", "eth0")
            total += int(json.loads(shown)[0]["stats64"]["tx"]["bytes"])
        return total

    # -- faults

    def cut(self, host: int) -> None:
        """Nothing from or to this host gets through; it sees its own cable as plugged in."""
        self._port(host, "down")

    def mend(self, host: int) -> None:
        self._port(host, "up")

    def deafen(self, source: int, target: int) -> None:
        """Nothing that `source` sends reaches `target`; the other direction works."""
        self._route("add", source, target)

    def undeafen(self, source: int, target: int) -> None:
        self._route("delete", source, target)

    def delay(self, host: int, milliseconds: int) -> None:
        """What this host sends comes so much later, or up to a quarter more. Skips where the
        kernel has no Ethernet devices for processes."""
        if host not in self._wires:
            self._wires[host] = self._rewire(host)
        self._wires[host].delay_s = milliseconds / 1_000

    # -- how

    def _build(self) -> None:
        switch = self._switch
        self._add(switch)
        _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "br0", "up")
        for host in self.hosts:
            name, port = self.name(host), f"port{host}"
            self._add(name)
            _run(
                *("ip", "-n", switch, "link", "add", port, "type", "veth"),
                *("peer", "name", "eth0", "netns", name),
            )
            _run("ip", "-n", name, "link", "set", "lo", "up")
            self._plug_in(host)

    def _plug_in(self, host: int) -> None:
        """Both ends of its cable are there: use them."""
        name, port = self.name(host), f"port{host}"
        _run("ip", "-n", self._switch, "link", "set", port, "master", "br0", "up")
        _run("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        _run("ip", "-n", name, "link", "set", "eth0", "up")

    def _rewire(self, host: int) -> SlowWire:
        """Another cable; connections bear it, for the card has the address that others know."""
        name, port = self.name(host), f"port{host}"
        card = json.loads(_run("ip", "-n", name, "-j", "link", "show", "eth0"))[0]["address"]
        try:
            ours = self._inside(self._switch, lambda: open_tap("spare"))
        except OSError as error:
            pytest.skip(f"no Ethernet devices for processes: {error}")
        _run("ip", "-n", self._switch, "link", "delete", port)
        _run("ip", "-n", self._switch, "link", "set", "spare", "name", port)
        wire = SlowWire(self.inside(host, lambda: open_tap("eth0")), ours)
        _run("ip", "-n", name, "link", "set", "eth0", "address", card)
        self._plug_in(host)
        return wire

    def _add(self, name: str) -> None:
        _run("ip", "netns", "add", name)
        self._made.append(name)

    def _port(self, host: int, state: str) -> None:
        _run("ip", "-n", self._switch, "link", "set", f"port{host}", state)

    def _route(self, verb: str, source: int, target: int) -> None:
        _run("ip", "-n", self.name(source), "route", verb, "blackhole", self.address(target))


class NamespaceCluster(Cluster):
    """A cluster with a host for each broker. Not for `join`."""

    def __init__(self, directory: Path, lab: Lab, brokers: int = 3, **overrides: Any) -> None:
        self.lab = lab
        super().__init__(directory, brokers, **overrides)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.lab.address(id_)}:{KAFKA_PORT}" for id_ in self.brokers)

    def view(self, id_: int) -> dict[str, Any]:
        return self.lab.inside(CLIENT, lambda: super(NamespaceCluster, self).view(id_))

    def raft_seen_from(self, id_: int) -> dict[str, Any]:
        """A broker's own view of Raft, asked from its own host: it may be cut off."""
        view = self.lab.inside(id_, lambda: super(NamespaceCluster, self).view(id_))
        found: dict[str, Any] = view["raft"]
        return found

    def _lay_out(self) -> None:
        at = self.lab.address
        voters = [f"{id_}@{at(id_)}:{RAFT_PORT}" for id_ in self.voters]
        for id_ in self.voters:
            settings: dict[str, object] = {
                "broker__id": id_,
                "broker__listeners": [f"PLAINTEXT://{at(id_)}:{KAFKA_PORT}"],
                "raft__listener": f"{at(id_)}:{RAFT_PORT}",
                "raft__voters": voters,
                "admin__address": f"{at(id_)}:{ADMIN_PORT}",
                **self.overrides,
            }
            directory = self.directory / f"broker-{id_}"
            command = ("ip", "netns", "exec", self.lab.name(id_))
            broker = BrokerProcess(directory, start=False, prefix=command, **settings)
            self.brokers[id_] = broker


def _run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, check=check, capture_output=True, text=True, timeout=30)
    return done.stdout
