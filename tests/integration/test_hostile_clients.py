"""Strangers who want memory or places of a broker, on each of its ports: what they take is bounded,
and a client that behaves is served meanwhile."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.ports import free_ports
from tests.support.secured import secured_broker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
GROWTH_BYTES_MAX = 96 * 1024 * 1024
"""A broker that kept what any of these send would have hundreds of megabytes."""
SLOWEST_S = 20.0
AT_PAGES_MAX = 4
"""aiohttp may have megabytes of what is no HTTP, for each of 64 connections at most."""
FRAME_BYTES_MAX = 16 * 1024 * 1024
PAGE = 4_096

Attack = Callable[[tuple[str, int], random.Random], socket.socket]
"""What it leaves open."""


class Ports(NamedTuple):
    """The broker and where it can be dialled, by what is spoken there."""

    broker: BrokerProcess
    by_name: dict[str, tuple[str, int]]
    good: str

    @property
    def memory_bytes(self) -> int:
        assert self.broker.process is not None
        statm = Path(f"/proc/{self.broker.process.pid}/statm").read_text()
        return int(statm.split()[1]) * PAGE

    def connections(self) -> int:
        lines = self.broker.get("/metrics")[1].splitlines()
        (line,) = (each for each in lines if each.startswith("josefine_connections "))
        return round(float(line.split()[-1]))


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    plain, tls, sasl, text, admin = free_ports(5)
    listeners = {"PLAINTEXT": plain, "SSL": tls, "SASL_SSL": sasl}
    with secured_broker(
        tmp_path_factory.mktemp("hostile"),
        broker__listeners=[f"{name}://127.0.0.1:{port}" for name, port in listeners.items()],
        text__port=text,
        admin__address=f"127.0.0.1:{admin}",
        network__request_bytes_max=FRAME_BYTES_MAX,
        network__frame_bytes_max=FRAME_BYTES_MAX,
        sasl__timeout_ms=2_000,
        tls__handshake_timeout_ms=2_000,
    ) as served:
        by_name = {
            name: ("127.0.0.1", port)
            for name, port in {**listeners, "text": text, "admin": admin}.items()
        }
        yield Ports(served.broker, by_name, f"127.0.0.1:{plain}")


def dial(address: tuple[str, int], sent: bytes) -> socket.socket:
    """A connection on which this was sent, as far as anybody took it."""
    dialled = socket.create_connection(address, timeout=10)
    with contextlib.suppress(OSError):
        dialled.sendall(sent)
    return dialled


def abandon(address: tuple[str, int], rng: random.Random) -> socket.socket:
    """In the middle of a request that would be large; every other one without a word (RST)."""
    dialled = dial(address, struct.pack(">ihh", 1 << 20, 0, 9) + rng.randbytes(100))
    if rng.random() < 0.5:
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    dialled.close()
    return dialled


def garbage(address: tuple[str, int], rng: random.Random) -> socket.socket:
    """Where TLS is spoken no handshake, elsewhere no frame and no line."""
    return dial(address, rng.randbytes(rng.choice((1, 5, 300, 20_000))))


def oversized(address: tuple[str, int], rng: random.Random) -> socket.socket:
    """As much as it is let to send of a frame, a line or a header that never ends."""
    allowed = struct.pack(">i", FRAME_BYTES_MAX)
    begin = rng.choice((allowed, allowed, struct.pack(">i", 2**31 - 1), b"GET /", b"PUBL "))
    dialled = dial(address, begin)
    dialled.settimeout(0.05)
    with contextlib.suppress(OSError):
        for _ in range(128):
            dialled.sendall(b"a" * 65_536)
    return dialled


def beside(ports: Ports, attacks: Callable[[], None]) -> tuple[int, float]:
    """(rounds of a client that behaves, the slowest in seconds) while others do not."""
    topic, rounds, slowest_s = "orders", 0, 0.0
    with BlockingClient(ports.good) as client:
        if topic not in client.metadata().topics:
            client.create_topics([NewTopic(topic, 1)])
        thread = threading.Thread(target=attacks)
        thread.start()
        while thread.is_alive() or not rounds:
            began_s = time.monotonic()
            batch = build_batch([Record(None, b"x" * 100, (), 0)])
            client.produce({TopicPartition(topic, 0): batch})
            rounds, slowest_s = rounds + 1, max(slowest_s, time.monotonic() - began_s)
        thread.join()
    return rounds, slowest_s


def held_to(
    ports: Ports, attack: Attack, times: int, growth_bytes_max: int = GROWTH_BYTES_MAX
) -> None:
    """So often at each port, at once; then nothing of it is left."""
    before, left = ports.memory_bytes, []

    def at(name: str) -> None:
        rng = random.Random(name)
        for _ in range(AT_PAGES_MAX if name == "admin" else times):
            left.append(attack(ports.by_name[name], rng))

    def everywhere() -> None:
        threads = [threading.Thread(target=at, args=[name]) for name in ports.by_name]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    rounds, slowest_s = beside(ports, everywhere)

    assert rounds > 0
    assert slowest_s < SLOWEST_S
    assert ports.memory_bytes - before < growth_bytes_max
    assert "aaaa" not in ports.broker.output
    for each in left:
        each.close()
    wait_until(lambda: ports.connections() == 0, 60, "all are gone")


@pytest.mark.parametrize(
    ("attack", "times"),
    [(abandon, 100), (garbage, 100), (oversized, 50)],
    ids=lambda x: str(x)[:20],
)
def test_a_few_hundred_cost_nothing_that_lasts(ports: Ports, attack: Attack, times: int) -> None:
    held_to(ports, attack, times)


@pytest.mark.slow
def test_ten_thousand_opened_and_abandoned_cost_nothing_that_lasts(ports: Ports) -> None:
    """An address may have a thousand at once, each with its chunk to receive into: those are had
    once, not with each ten thousand."""
    times = 10_000 // len(ports.by_name)
    held_to(ports, abandon, times, growth_bytes_max=3 * GROWTH_BYTES_MAX)

    held_to(ports, abandon, times)


def test_connections_that_say_nothing_or_a_byte_take_no_memory_and_no_place(ports: Ports) -> None:
    """Slow-loris: where a name or a handshake is asked for, they have two seconds."""
    before, held = ports.memory_bytes, []

    def loris() -> None:
        for name, address in ports.by_name.items():
            many = 40 if name == "admin" else 100
            held.extend(dial(address, b"" if n % 2 else b"\0") for n in range(many))

    rounds, slowest_s = beside(ports, loris)

    assert (rounds > 0, slowest_s < SLOWEST_S) == (True, True)
    assert ports.memory_bytes - before < GROWTH_BYTES_MAX
    wait_until(lambda: ports.connections() == 200, 60, "only those of the open ports are left")
    for each in held:
        each.close()
    wait_until(lambda: ports.connections() == 0, 60, "all are gone")
