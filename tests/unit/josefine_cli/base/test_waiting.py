"""No command is silent for long: it says what it waits for, whatever it is that does not come."""

from __future__ import annotations

import io
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.client.session import Policy
from josefine_cli.base import output, waiting
from josefine_cli.base.waiting import AGAIN_S, FIRST_S, INNER_S, Wait, Waits, sentence
from tests.support.cli import josefine
from tests.support.waiting import wait_until
from tests.unit.josefine_cli.scripted import ScriptedBroker

SILENCE_S_MAX = 10.0


def said(waits: Waits, now_s: float) -> str:
    told = waits.take_due(now_s)
    return sentence(told, now_s) if told else ""


def test_wait_is_told_after_a_moment_and_again() -> None:
    waits = Waits()
    waits.begin(lambda: "a leader", 100.0)

    assert said(waits, 100.0 + FIRST_S - 0.1) == ""
    assert said(waits, 100.0 + FIRST_S) == f"still waiting after {FIRST_S:.0f} s: a leader"
    assert said(waits, 100.0 + FIRST_S + AGAIN_S - 0.1) == ""
    assert said(waits, 100.0 + FIRST_S + AGAIN_S).endswith(": a leader")


def test_no_silence_is_longer_than_ten_seconds() -> None:
    assert max(FIRST_S, AGAIN_S) <= SILENCE_S_MAX


def test_what_ended_in_time_is_not_told() -> None:
    waits = Waits()
    waits.end(waits.begin(lambda: "a leader", 0.0))

    assert waits.due_s() is None
    assert said(waits, 1_000.0) == ""


def test_many_short_waits_within_one_are_one_long_wait() -> None:
    """Six brokers that are silent for two seconds each are silent for twelve."""
    waits = Waits()
    waits.begin(lambda: "any broker", 0.0)
    for began_s in (0.0, 2.0):
        waits.end(waits.begin(lambda: "one broker", began_s))
    waits.begin(lambda: "the last broker", 4.0)

    assert said(waits, 4.5) == "still waiting after 4 s: any broker"
    assert said(waits, 4.5 + AGAIN_S) == "still waiting after 12 s: any broker: the last broker"


def test_inner_wait_that_only_began_is_no_reason() -> None:
    waits = Waits()
    waits.begin(lambda: "the end", 0.0)
    waits.begin(lambda: "a poll", FIRST_S - INNER_S / 2)

    assert said(waits, FIRST_S) == "still waiting after 3 s: the end"


def test_wait_that_comes_nearer_begins_anew() -> None:
    waits = Waits()
    wait: Wait = waits.begin(lambda: "records", 0.0)
    waits.moved(wait, FIRST_S - 0.5)

    assert said(waits, FIRST_S) == ""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said at once, and given up soon after: who says it is a thread, and may get its turn late."""
    monkeypatch.setattr(waiting, "FIRST_S", 0.02)
    monkeypatch.setattr(waiting, "AGAIN_S", 0.1)
    monkeypatch.setattr(waiting, "INNER_S", 0.0)
    monkeypatch.setattr("josefine_broker.client.watching.ASKED_MS", 0)
    policy = Policy(request_timeout_ms=600, connect_timeout_ms=400, bootstrap_timeout_ms=150)
    monkeypatch.setattr(output, "PATIENCE", policy)
    monkeypatch.setattr("josefine_cli.base.admin.ASK_TIMEOUT_S", 0.4)


@pytest.fixture
def mute() -> Iterator[int]:
    """The port of a broker that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port where connections are refused."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield closed.getsockname()[1]


def told() -> str:
    """What the command under way has said on stderr."""
    buffer = sys.stderr.buffer
    return buffer.getvalue().decode() if isinstance(buffer, io.BytesIO) else ""


CLIENTS = [
    ("topics", "create", "t"),
    ("topics", "list"),
    ("topics", "describe", "t"),
    ("topics", "alter", "t", "-p", "2"),
    ("topics", "delete", "t", "--yes"),
    ("produce", "t"),
    ("consume", "t"),
    ("consume", "t", "--follow"),
    ("cluster", "reassign", "t", "--to", "1"),
    ("cluster", "reassign", "--list"),
    ("cluster", "elect", "t"),
    ("cluster", "remove", "1"),
]
"""Every verb that asks as a Kafka client."""
WATCHERS = [("status",), ("brokers",), ("partitions",), ("chain",)]
"""Those that ask a health address."""


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("verb", CLIENTS, ids=" ".join)
def test_broker_that_never_answers_is_named_while_it_is_waited_for(
    mute: int, verb: tuple[str, ...]
) -> None:
    done = josefine(f"127.0.0.1:{mute}", *verb, stdin="a\n")

    assert done.code == 1
    *waited, last = done.err.splitlines()
    assert all(each.startswith("still waiting after ") for each in waited)
    assert any(f"connecting to 127.0.0.1:{mute}" in each for each in waited)
    assert last.startswith("error: ")
    assert f"127.0.0.1:{mute} (no answer in time)" in last


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("verb", WATCHERS, ids=" ".join)
def test_health_address_that_never_answers_is_named(mute: int, verb: tuple[str, ...]) -> None:
    url = f"http://127.0.0.1:{mute}"

    done = josefine("", "cluster", *verb, "--admin", url)

    assert done.code == 1
    assert f"still waiting after 0 s: an answer of {url}\n" in done.err


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("verb", CLIENTS, ids=" ".join)
def test_where_nobody_listens_that_is_the_error(nobody: int, verb: tuple[str, ...]) -> None:
    done = josefine(f"127.0.0.1:{nobody}", *verb, stdin="a\n")

    assert done.code == 1
    assert f"127.0.0.1:{nobody} (connection refused)" in done.err.splitlines()[-1]


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("verb", [("produce", "t"), ("consume", "t")])
def test_topic_whose_leader_is_gone_says_so(verb: tuple[str, ...]) -> None:
    with ScriptedBroker(leader=-1) as broker:
        done = josefine(broker.address, *verb, stdin="a\n")

    assert done.code == 1
    assert "still waiting after " in done.err
    assert "partition t-0 has no leader now\n" in done.err


@pytest.mark.usefixtures("hurried")
def test_leader_whose_address_refuses_is_named(nobody: int) -> None:
    with ScriptedBroker(leader=2, leader_port=nobody) as broker:
        done = josefine(broker.address, "consume", "t")

    reason = f"offsets: cannot reach a broker at 127.0.0.1:{nobody} (connection refused)"
    assert f"still waiting after 0 s: {reason}" in done.err


@pytest.mark.usefixtures("hurried")
def test_too_few_replicas_in_sync_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # It is told while it goes on; on a busy machine that takes a while to begin.
    monkeypatch.setattr(output, "PATIENCE", Policy(request_timeout_ms=2_500))
    refused = (ErrorCode.not_enough_replicas, "1 in sync, 2 needed")
    with ScriptedBroker(leader=1, produce=refused) as broker:
        done = josefine(broker.address, "produce", "t", stdin="a\n")

    assert done.code == 1
    words = "produce: partition t-0: 1 in sync, 2 needed"
    assert f"still waiting after 0 s: {words}\n" in done.err
    assert f"error: {words}, tried " in done.err


@pytest.mark.usefixtures("hurried")
def test_cluster_without_a_controller_is_said_by_who_creates_a_topic() -> None:
    refused = (ErrorCode.request_timed_out, "no controller: 1 of the voters 1, 2, 3 is there")
    with ScriptedBroker(leader=1, create=refused) as broker:
        done = josefine(broker.address, "topics", "create", "t")

    assert done.code == 1
    assert "create topics: topic 't': no controller: 1 of the voters 1, 2, 3 is there" in done.err


@pytest.mark.usefixtures("hurried")
def test_bounded_read_of_a_log_that_lost_its_end_says_what_it_waits_for() -> None:
    """An unclean election may leave a log that ends before the offset that was promised."""
    words = "still waiting after 0 s: records of t-0 from offset 0 to 5"
    with ScriptedBroker(leader=1, latest=5, heard=lambda: words in told()) as broker:
        done = josefine(broker.address, "consume", "t")

    assert done.code == 1
    assert words in done.err


def test_data_directory_that_takes_long_to_read_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hurried: None
) -> None:
    for name in ("a-0", "b-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "partition.json").write_text("{}")

    def slow(_directory: Path, _name: str) -> dict[str, object]:
        wait_until(lambda: "of 2 partitions to be read" in told(), 20, "a word")
        return {"problems": (), "segments": 1, "batches": 0}

    monkeypatch.setattr("josefine_cli.broker.log._verify", slow)

    assert josefine("", "log", "verify", "--data-dir", str(tmp_path)).code == 0
