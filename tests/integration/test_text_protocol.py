"""The text protocol of a real broker, over plain sockets."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import REPOSITORY, BrokerProcess
from tests.support.cli import COMMAND, environment, josefine
from tests.support.fixtures import broker_fixture
from tests.support.ports import free_ports
from tests.support.text import TIMEOUT_S, TextSocket, text_address
from tests.support.text_scenarios import SCENARIOS, play
from tests.support.waiting import wait_until

MESSAGE = '{"Key":"k","Body":"b"}'
TRANSCRIPT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


broker = broker_fixture(text__port=0, text__line_bytes_max=300_000)


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[TextSocket]:
    with TextSocket(text_address(broker)) as found:
        yield found


def test_conversation_of_the_manual_is_true(client: TextSocket) -> None:
    """Checklist rows 40-42, 46, 47, 49 and 50."""
    (text,) = TRANSCRIPT.findall((REPOSITORY / "docs/reference/text-protocol.md").read_text())
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


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_command_and_every_error_over_a_socket(client: TextSocket, name: str) -> None:
    """Checklist rows 40-42, 45-47 and 50."""
    play(name, client.say, topics=f"{name}-")


def test_the_command_says_lines_of_a_pipe_and_prints_each_reply(broker: BrokerProcess) -> None:
    address = "{}:{}".format(*text_address(broker))
    many = "".join(f'PUBS piped {{"Body":"{n}"}}\n' for n in range(1_000))

    done = josefine("", "text", address, stdin=f"CRTP piped\n{many}DISC\nnever said\n")
    assert (done.code, done.err) == (0, "")
    assert done.out.split() == ["Done"] * 1_002

    done = josefine("", "text", address, stdin="SUBS nowhere g\nCRTP piped")
    assert (done.code, done.err) == (1, "1 line refused\n")
    assert done.out.splitlines() == ["Error, there is no topic 'nowhere'", "Done"]


def test_the_command_has_a_prompt_in_a_terminal(broker: BrokerProcess) -> None:
    address = "{}:{}".format(*text_address(broker))
    said, shown = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "text", address], stdin=shown, stdout=shown, stderr=shown, env=environment("")
    )
    os.close(shown)
    seen = bytearray()

    def shows(words: bytes) -> bool:
        if select.select([said], [], [], 0.1)[0]:
            seen.extend(os.read(said, 4_096))
        return words in seen

    try:
        wait_until(lambda: shows(b"> "), 60, "a prompt")
        os.write(said, b"\nCRTP prompted\n")
        wait_until(lambda: shows(b"Done"), 60, "a reply")
        os.write(said, b"nonsense\n")
        wait_until(lambda: shows(b"unknown command 'nonsense'"), 60, "an error")
        os.write(said, b"\x04")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(said)


def test_the_command_names_an_address_without_a_listener() -> None:
    done = josefine("", "text", f"127.0.0.1:{free_ports(1)[0]}", stdin="CRTP a\n")

    assert done.code == 1
    assert "error: no text listener answers at 127.0.0.1:" in done.err
    assert done.err.count("\n") == 1
    assert josefine("", "text", "nowhere", stdin="").code == 2


def test_the_client_of_the_readme_works(broker: BrokerProcess) -> None:
    readme = (REPOSITORY / "README.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    (code,) = (each for each in blocks if "class Text:" in each)
    assert len(code.splitlines()) <= 30
    names: dict[str, Any] = {}
    exec(code, names)

    text = names["Text"](*text_address(broker))
    try:
        assert text.send("CRTP", "readme") == "Done"
        text.publish("readme", 'she said "go"', key="k")
        (subscription,) = text.data("SUBS", "readme", "board")
        (found,) = text.data("CONS", "readme", subscription, 0)
        assert (found["Key"], found["Body"]) == ("k", 'she said "go"')
        with pytest.raises(OSError, match="there is no topic 'nowhere'"):
            text.publish("nowhere", "x")
        with pytest.raises(OSError, match="already assigned"):
            text.data("SUBS", "readme", "board")
    finally:
        text.replies.close()
        text.socket.close()


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


def test_who_subscribes_is_shown_among_the_groups(
    broker: BrokerProcess, client: TextSocket
) -> None:
    assert client.say("CRTP shown 2") == "Done"
    ids = client.data("SUBS shown shown-group 2")

    listed = josefine(broker.bootstrap, "groups", "list", "--json")
    described = josefine(broker.bootstrap, "groups", "describe", "shown-group", "--json")

    assert listed.code == described.code == 0, listed.err + described.err
    (group,) = (each for each in json.loads(listed.out) if each["group"] == "shown-group")
    assert (group["type"], group["state"]) == ("text", "Stable")
    assert all(id_ in described.out for id_ in ids)


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
    """Checklist rows 49 and 50: half lines, 100 MB in one, one who does not read, and silence."""
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
    for _ in range(100):
        long.send(b"x" * 1_000_000)
    long.send(b"\nCRTP behind\n")
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


def test_ten_thousand_who_say_nothing_disturb_nobody(tmp_path: Path) -> None:
    """Each costs the broker a few kilobytes, and nothing once it is gone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # The broker leaves half of its descriptors to logs. One more connection than it has room for is
    # refused, if the others were opened within the last second.
    count = min(10_000, hard // 2 - 500)
    limits = {"network__connections_max": 12_000, "network__connections_per_address_max": 12_000}
    with BrokerProcess(tmp_path, text__port=0, **limits) as broker, ExitStack() as idle:
        address = text_address(broker)
        before_kb, before_fds = resident_kb(broker), descriptors(broker)
        for number in range(count):
            source = f"127.0.0.{2 + number % 8}", 0  # a peer address has so many ports
            idle.enter_context(socket.create_connection(address, TIMEOUT_S, source_address=source))

        with TextSocket(address) as client:
            assert client.say("CRTP served") == "Done"
            assert [client.say("PUBS served {}") for _ in range(100)] == ["Done"] * 100
        assert broker.get("/health")[0] == 200
        assert resident_kb(broker) - before_kb < count * 20

        idle.close()
        wait_until(lambda: descriptors(broker) <= before_fds + 10, 60, "the connections' end")
        assert "Traceback" not in broker.output
        assert len(broker.output) < 20_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_kb(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


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
