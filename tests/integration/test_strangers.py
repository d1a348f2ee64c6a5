"""Strangers on the raft port of a real broker: it goes on, in its term, and they cost it little."""

from __future__ import annotations

import json
import socket
import struct
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.engine.cluster.frames import Frame, Hello, Kind, encode_frame
from josefine_broker.engine.cluster.messages import encode_said
from josefine_broker.engine.controller.controller import Heartbeat
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import Origin, RegisterBroker
from josefine_broker.host.peers.raft_transport import STRANGERS_MAX
from raft import GENESIS, NodeId, Term
from raft.codec import encode
from raft.messages import Append, Message, Propose, TakeOver, VoteRequest
from tests.support.broker import BrokerProcess
from tests.support.cluster import free_ports
from tests.support.waiting import wait_until

ME, STRANGER = 1, 77


class Known(BrokerProcess):
    """A broker whose raft port is known."""

    def __init__(self, directory: Path) -> None:
        self.raft_port = free_ports(1)[0]
        super().__init__(directory, raft__listener=f"127.0.0.1:{self.raft_port}")

    def cluster(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.admin_url}/cluster", timeout=20) as answer:
            plain: dict[str, Any] = json.load(answer)
            return plain

    def dial(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.raft_port), timeout=20)

    def greet(self, node_id: int = STRANGER) -> socket.socket:
        """A connection that was welcomed."""
        connection = self.dial()
        hello = Hello(node_id=node_id, to=0, cluster_id="", address="")
        connection.sendall(hello.encode(Kind.HELLO))
        assert read_frame(connection).kind is Kind.WELCOME
        return connection

    def resident_kb(self) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if "VmRSS" in line).split()[1])

    def metric(self, name: str) -> float:
        lines = self.get("/metrics")[1].splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(name)))


@pytest.fixture(scope="module")
def known_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    with Known(tmp_path_factory.mktemp("strangers")) as process:
        yield process


def read_frame(connection: socket.socket) -> Frame:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">I", data)[0]:
        more = connection.recv(65_536)
        assert more, "closed"
        data += more
    return Frame(Kind(data[6]), data[7:])


def is_closed(connection: socket.socket) -> bool:
    """Does the broker hang up? An answer instead is none."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def envelope(term: int) -> dict[str, Any]:
    return {"to": NodeId(ME), "term": Term(term), "cluster_id": ""}


def messages(sender: int, term: int) -> list[Message]:
    """What ended a broker, or raised its term."""
    of = {"sender": NodeId(sender), **envelope(term)}
    far = {"sender": NodeId(sender), **envelope(term + 1_000)}
    return [
        Append(**of, parent=GENESIS, blocks=(), commit=GENESIS, round=0),
        VoteRequest(**far, head=GENESIS, pre=False, forced=True),
        TakeOver(**of),
        Propose(**of, number=1, payload=b"no change"),
    ]


@pytest.mark.parametrize("sender", [STRANGER, 2, ME])
@pytest.mark.parametrize("number", range(4))
def test_no_message_of_a_stranger_reaches_raft(
    known_broker: Known, sender: int, number: int
) -> None:
    term = known_broker.cluster()["raft"]["term"]

    with known_broker.greet() as connection:
        message = messages(sender, term)[number]
        connection.sendall(encode_frame(Kind.RAFT, encode(message)))
        assert is_closed(connection)

    assert known_broker.alive
    assert known_broker.cluster()["raft"]["term"] == term


def test_a_stranger_has_no_heartbeat(known_broker: Known) -> None:
    beat = Heartbeat(broker_id=ME, broker_epoch=1, applied_height=1)
    with known_broker.greet() as connection:
        connection.sendall(encode_frame(*encode_said(beat)))
        assert is_closed(connection)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (RegisterBroker(broker_id=78, incarnation="x", endpoints=()), "its own registration"),
        (RegisterBroker(broker_id="77", incarnation="x", endpoints=()), "wrong type"),  # type: ignore[arg-type]
    ],
)
def test_a_stranger_registers_nobody_but_itself(
    known_broker: Known, change: RegisterBroker, reason: str
) -> None:
    """Text for a broker's id was committed, and stopped every broker when it was applied."""
    with known_broker.greet() as connection:
        body = encode_change(change, Origin(STRANGER, 1))
        connection.sendall(encode_frame(Kind.PROPOSE, body))
        answer = read_frame(connection)

    assert reason in answer.fields()["refused"]
    assert known_broker.alive


def test_silent_strangers_cost_little_and_keep_nobody_out(known_broker: Known) -> None:
    """40 of them, each with the beginning of a frame of 12 MB, took 500 MB."""
    with known_broker.greet():
        before_kb = known_broker.resident_kb()
    head = struct.pack(">IHB", 12_000_000, 1, Kind.HELLO)
    with ExitStack() as open_ones:
        for number in range(2 * STRANGERS_MAX):
            connection = open_ones.enter_context(
                known_broker.greet() if number % 2 else known_broker.dial()
            )
            connection.settimeout(0.05)
            try:
                connection.sendall(head + bytes(2_000_000))
            except OSError:
                continue  # it hung up, or does not read

        with known_broker.greet() as newcomer:
            newcomer.sendall(encode_frame(Kind.DISCOVER, b"{}"))
            assert read_frame(newcomer).kind is Kind.DISCOVERED
        assert known_broker.resident_kb() - before_kb < 20_000


def test_what_strangers_do_is_counted_and_hardly_logged(known_broker: Known) -> None:
    term = known_broker.cluster()["raft"]["term"]
    before, said = (
        known_broker.metric("josefine_raft_frames_refused_total"),
        len(known_broker.output),
    )
    for _ in range(30):
        with known_broker.greet() as connection:
            message = messages(STRANGER, term)[0]
            connection.sendall(encode_frame(Kind.RAFT, encode(message)))
            assert is_closed(connection)

    wait_until(
        lambda: known_broker.metric("josefine_raft_frames_refused_total") >= before + 30,
        60,
        "the count",
    )
    assert known_broker.output[said:].count("raft frame refused") <= 2
