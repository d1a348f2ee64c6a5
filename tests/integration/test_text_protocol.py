"""The text protocol of a real broker, over plain sockets."""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import REPOSITORY, BrokerProcess
from tests.support.text import TextSocket, text_address
from tests.support.waiting import wait_until

MESSAGE = '{"Key":"k","Body":"b"}'
TRANSCRIPT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("text")
    with BrokerProcess(directory, text__port=0, text__line_bytes_max=300_000) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[TextSocket]:
    with TextSocket(text_address(broker)) as found:
        yield found


def test_conversation_of_the_manual_is_true(client: TextSocket) -> None:
    """Checklist rows 40-42, 46, 47, 49 and 50."""
    (text,) = TRANSCRIPT.findall((REPOSITORY / "docs/text-protocol.md").read_text())
    lines = text.splitlines()
    known: dict[str, str] = {}

    for said, expected in zip(lines[::2], lines[1::2], strict=True):
        line = said.removeprefix("> ")
        for name, value in known.items():
            line = line.replace(name, value)
        reply = client.say(line)
        pattern = re.escape(expected.removeprefix("< ")).replace(r"\*", "([0-9a-f]+)")
        found = re.fullmatch(pattern, reply)
        assert found, f"{line}: {reply}"
        if line.startswith("SUBS"):
            names = re.findall(r"board-\d-\*", expected)
            known |= {
                name: name[:-1] + end for name, end in zip(names, found.groups(), strict=True)
            }

    assert client.reply() == ""


def test_what_text_writes_a_kafka_client_reads_and_the_reverse(
    broker: BrokerProcess, client: TextSocket
) -> None:
    """Checklist rows 45, 47 and 52."""
    tp = TopicPartition("both", 0)
    assert client.say("CRTP both") == "Done"
    assert client.say(f"PUBS both {MESSAGE}") == "Done"
    assert client.say(f'PUBS both {{"Body":"{"x" * 200_000}"}}') == "Done"

    with BlockingClient(broker.bootstrap) as kafka:
        kafka.produce({tp: build_batch([Record(b"k", b"kafka", (("Header", b"h"),), 1)])})
        fetched = kafka.fetch({tp: 0})[tp]

    (id_,) = client.data("SUBS both readers")
    messages = client.data(f"CONS both {id_} 0")
    assert fetched.high_watermark == 3
    assert [len(each["Body"]) for each in messages] == [1, 200_000, 5]
    assert messages[2] == {
        "Header": "h", "Body": "kafka", "Key": "k", "Offset": 2, "Timestamp": 1,
    }  # fmt: skip


def test_input_that_ends_is_served_and_what_was_said_by_who_is_gone_too(
    broker: BrokerProcess, client: TextSocket
) -> None:
    """`echo … | nc`: with its replies, or without waiting for them."""
    client.send(b"CRTP ended\nPUBS ended {}\n")
    client.socket.shutdown(socket.SHUT_WR)
    assert [client.reply(), client.reply(), client.reply()] == ["Done", "Done", ""]

    with TextSocket(text_address(broker)) as gone:
        gone.data("SUBS ended g")
        gone.send(b"PUBS ended {}\n" * 50 + b"DISC\n")
    with TextSocket(text_address(broker)) as other:
        found: list[str] = []
        wait_until(
            lambda: found.append(other.say("SUBS ended g")) or found[-1].startswith("{"),
            20,
            "the subscription that is given back",
        )
        id_ = found[-1].split('"')[5]
        assert len(other.data(f"CONS ended {id_} 0")) == 51


def test_noise_costs_nobody_but_who_makes_it(broker: BrokerProcess, client: TextSocket) -> None:
    """Checklist rows 49 and 50: half lines, a line of 20 MB, one who does not read, and silence."""
    address = text_address(broker)
    client.say("CRTP noise")
    client.send(b"".join(b"PUBS noise {}\n" for _ in range(500)))
    assert [client.reply() for _ in range(500)] == ["Done"] * 500
    (id_,) = client.data("SUBS noise g")
    silent = [TextSocket(address) for _ in range(100)]
    half = TextSocket(address)
    half.send(b"PUBS noi")
    half.close()
    long = TextSocket(address)
    long.send(b"x" * 20_000_000 + b"\nCRTP behind\n")
    assert long.reply() == "Error, the line is longer than 300000 bytes"
    assert long.reply() == "Done"
    deaf = TextSocket(address)
    deaf.socket.settimeout(2)
    with suppress(TimeoutError):  # in the end it is not read either
        while True:
            deaf.send(f"CONS noise {id_} 0\n".encode() * 1_000)

    assert client.say("PUBS noise {}") == "Done"

    assert "Traceback" not in broker.output
    for each in (*silent, long, deaf):
        each.close()
    status, health = broker.get("/health")
    assert status == 200, health


def test_messages_wait_for_no_tick(client: TextSocket) -> None:
    """Checklist row 53."""
    client.say("CRTP quick")
    took_ms = []

    for _ in range(200):
        began = time.perf_counter()
        assert client.say(f"PUBS quick {MESSAGE}") == "Done"
        took_ms.append((time.perf_counter() - began) * 1_000)

    assert statistics.median(took_ms) < 10


def test_topics_messages_and_subscriptions_survive_kill_9(tmp_path: Path) -> None:
    """Checklist rows 48 and 54: of one broker."""
    with BrokerProcess(tmp_path, text__port=0) as broker:
        with TextSocket(text_address(broker)) as client:
            client.say("CRTP kept 2")
            for number in range(4):
                client.say(f'PUBS kept {{"Body":"{number}"}}')
            ids = client.data("SUBS kept g 2")
        broker.kill()
        broker.start()
        with TextSocket(text_address(broker)) as client:
            assert client.say("CRTP kept 2") == "Done"
            assert client.say("SUBS kept g").startswith("Failed to create subscription")
            assert [len(client.data(f"CONS kept {each} 0")) for each in ids] == [2, 2]
        assert broker.stop() == 0
