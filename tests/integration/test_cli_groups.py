"""`josefine groups` and `josefine consume --group` against a real broker."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.consumer_member import ConsumerMember
from tests.bench.group_client import Wire, find_coordinator
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine, josefine_process
from tests.support.waiting import wait_until

_NUMBERS = itertools.count(1)
Topics = Callable[..., str]
WAIT_S = 90.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = Path(tmp_path_factory.mktemp("cli-groups"))
    with BrokerProcess(directory, group__initial_rebalance_delay_ms=0) as process:
        yield process.bootstrap


@pytest.fixture
def make_topic(bootstrap: str) -> Topics:
    """A topic with `records` lines in each partition, and a group named like it."""

    def make(partitions: int = 1, records: int = 10) -> str:
        name = f"groups-{next(_NUMBERS)}"
        assert josefine(bootstrap, "topics", "create", name, "-p", str(partitions)).code == 0
        for partition in range(partitions):
            lines = "".join(f"{partition}.{n}\n" for n in range(records))
            josefine(bootstrap, "produce", name, "-p", str(partition), stdin=lines)
        return name

    return make


def described(bootstrap: str, group: str) -> dict[str, Any]:
    done = josefine(bootstrap, "groups", "describe", group, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def offsets(bootstrap: str, group: str) -> list[tuple[int, int, int]]:
    """(partition, committed, lag) of each."""
    partitions = described(bootstrap, group)["partitions"]
    return [(p["partition"], p["committed"], p["lag"]) for p in partitions]


def test_member_reads_what_is_new_commits_and_leaves(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic(partitions=2)

    first = josefine(bootstrap, "consume", topic, "--group", topic)
    again = josefine(bootstrap, "consume", topic, "--group", topic)
    josefine(bootstrap, "produce", topic, "-p", "1", stdin="new\n")
    later = josefine(bootstrap, "consume", topic, "--group", topic)

    assert sorted(first.out.split()) == sorted(f"{p}.{n}" for p in range(2) for n in range(10))
    assert (again.code, again.out, later.out) == (0, "", "new\n")
    assert offsets(bootstrap, topic) == [(0, 10, 0), (1, 11, 0)]
    assert described(bootstrap, topic)["state"] == "Empty"


def test_max_commits_exactly_what_was_printed(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()

    first = josefine(bootstrap, "consume", topic, "-g", topic, "--max", "3")
    rest = josefine(bootstrap, "consume", topic, "-g", topic)

    assert first.out.split() == ["0.0", "0.1", "0.2"]
    assert rest.out.split() == [f"0.{n}" for n in range(3, 10)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_signal_commits_and_leaves_the_group(
    bootstrap: str, make_topic: Topics, number: signal.Signals, code: int
) -> None:
    topic = make_topic()
    with josefine_process(bootstrap, "consume", topic, "-g", topic, "--follow") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for n in range(10):
            assert process.stdout.readline() == f"0.{n}\n"
        during = described(bootstrap, topic)
        refused = josefine(
            bootstrap, "groups", "reset-offsets", topic, "-t", topic, "--to", "earliest"
        )
        undeleted = josefine(bootstrap, "groups", "delete", topic, "--yes")

        process.send_signal(number)
        assert process.wait(WAIT_S) == code, process.stderr.read()

    (member,) = during["members"]
    assert (during["state"], during["assignor"]) == ("Stable", "range")
    assert member["partitions"] == [{"topic": topic, "partition": 0}]
    assert during["partitions"][0]["owner"] == member["member"]
    assert (refused.code, refused.err) == (
        1,
        f"error: group '{topic}' is Stable with 1 member: stop them before its offsets are moved\n",
    )
    assert undeleted.err == f"error: group '{topic}' has members: stop them first\n"
    after = described(bootstrap, topic)
    assert (after["state"], after["members"]) == ("Empty", [])
    assert offsets(bootstrap, topic) == [(0, 10, 0)]


def test_two_members_share_the_partitions_and_one_takes_over(
    bootstrap: str, make_topic: Topics
) -> None:
    topic = make_topic(partitions=2, records=1)
    command = ("consume", topic, "-g", topic, "--follow")

    def owned() -> list[int]:
        members = described(bootstrap, topic)["members"]
        return sorted(len(member["partitions"]) for member in members)

    with josefine_process(bootstrap, *command) as one:
        wait_until(lambda: josefine(bootstrap, "groups", "describe", topic).code == 0, WAIT_S, "it")
        with josefine_process(bootstrap, *command) as two:
            wait_until(lambda: owned() == [1, 1], WAIT_S, "each of two members to have one")
            two.send_signal(signal.SIGINT)
            assert two.wait(WAIT_S) == 0
        wait_until(lambda: owned() == [2], WAIT_S, "the one that is left to have both")
        one.send_signal(signal.SIGINT)
        assert one.wait(WAIT_S) == 0

    assert offsets(bootstrap, topic) == [(0, 1, 0), (1, 1, 0)]


def test_reset_shows_first_and_moves_when_told(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic(partitions=2)
    josefine(bootstrap, "consume", topic, "-g", topic)
    reset = ("groups", "reset-offsets", topic)

    shown = josefine(bootstrap, *reset, "--topic", f"{topic}:1", "--to", "4")
    unchanged = offsets(bootstrap, topic)
    done = josefine(bootstrap, *reset, "--topic", f"{topic}:1", "--to", "4", "--execute", "--json")
    shifted = josefine(bootstrap, *reset, "--all-topics", "--shift-by", "-2", "--execute")

    assert "10" in shown.out
    assert shown.err == "nothing is changed yet: run it with --execute\n"
    assert unchanged == [(0, 10, 0), (1, 10, 0)]
    assert json.loads(done.out) == {
        "group": topic,
        "executed": True,
        "partitions": [{"topic": topic, "partition": 1, "committed": 10, "to": 4, "note": None}],
    }
    assert shifted.out.splitlines()[-1] == f"moved 2 offsets of {topic}"
    assert offsets(bootstrap, topic) == [(0, 8, 2), (1, 2, 8)]


def test_group_that_is_not_there_can_be_given_offsets(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()

    josefine(
        bootstrap, "groups", "reset-offsets", topic, "-t", topic, "--to", "latest", "--execute"
    )

    assert offsets(bootstrap, topic) == [(0, 10, 0)]


def test_offsets_go_to_where_a_table_ends(
    bootstrap: str, make_topic: Topics, tmp_path: Path
) -> None:
    topic = make_topic()
    described_topic = json.loads(josefine(bootstrap, "topics", "describe", topic, "--json").out)
    command = (
        "groups", "reset-offsets", topic, "-t", topic, "--to-table", str(tmp_path), "--execute",
    )  # fmt: skip

    def write_table(topic_id: str) -> None:
        metadata = {"josefine": 1, "end": {topic: {"0": 6}}, "topic_ids": {topic: topic_id}}
        info = {"operation": "WRITE", "userMetadata": json.dumps(metadata)}
        txn = {"appId": "josefine:p:s", "version": 1}
        lines = [json.dumps(each) for each in ({"commitInfo": info}, {"txn": txn})]
        (tmp_path / "_delta_log").mkdir(exist_ok=True)
        (tmp_path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(lines))

    write_table("another-id")
    refused = josefine(bootstrap, *command)
    write_table(described_topic["id"])
    done = josefine(bootstrap, *command)

    assert refused.code == 1
    assert "was created again since the table" in refused.err
    assert done.code == 0, done.err
    assert offsets(bootstrap, topic) == [(0, 6, 4)]


def test_groups_are_listed_by_state_and_deleted(bootstrap: str, make_topic: Topics) -> None:
    """Checklist row 92."""
    topic = make_topic()
    josefine(bootstrap, "consume", topic, "-g", topic)

    def listed(*options: str) -> list[str]:
        done = josefine(bootstrap, "groups", "list", "--json", *options)
        return [each["group"] for each in json.loads(done.out)]

    empty, stable = listed("--state", "Empty"), listed("--state", "stable")
    shown = josefine(bootstrap, "groups", "list").out
    deleted = josefine(bootstrap, "groups", "delete", topic, "--yes")
    again = josefine(bootstrap, "groups", "delete", topic, "--yes")
    allowed = josefine(bootstrap, "groups", "delete", topic, "--yes", "--if-exists")

    assert topic in empty
    assert topic not in stable
    assert any(line.split()[:3] == [topic, "classic", "Empty"] for line in shown.splitlines())
    assert (deleted.code, deleted.out) == (0, f"deleted {topic}\n")
    assert (again.code, again.err) == (1, f"error: group '{topic}' does not exist\n")
    assert (allowed.code, allowed.out) == (0, "nothing to delete\n")
    assert topic not in listed()


def test_groups_are_listed_by_type(bootstrap: str, make_topic: Topics) -> None:
    topic = make_topic()
    josefine(bootstrap, "consume", topic, "-g", topic)
    joins(bootstrap, f"{topic}-consumer", topic)

    def listed(*types: str) -> set[str]:
        options = itertools.chain(*(("--type", each) for each in types))
        done = josefine(bootstrap, "groups", "list", "--json", *options)
        found = {each["group"] for each in json.loads(done.out)}
        return {each for each in found if each.startswith(topic)}

    assert listed("classic") == {topic}
    assert listed("Consumer") == {f"{topic}-consumer"}
    assert listed("text") == set()
    assert listed("consumer", "classic") == listed() == {topic, f"{topic}-consumer"}


def joins(bootstrap: str, group: str, topic: str) -> None:
    """A member of the consumer protocol, which is silent from then on."""

    async def join() -> None:
        wire = await Wire.open(bootstrap)
        await find_coordinator(wire, group)
        await ConsumerMember(wire, group, topic, 1).join()
        wire.close()

    asyncio.run(join())


def test_what_cannot_be_done_is_one_sentence(bootstrap: str, make_topic: Topics) -> None:
    """Checklist row 92."""
    topic = make_topic()
    reset = ("groups", "reset-offsets", "absent")
    cases = {
        ("groups", "list", "--type", "clasic"): (
            2,
            "--type is classic, consumer, share or text, not",
        ),
        ("groups", "describe", "absent"): (1, "group 'absent' does not exist"),
        (*reset, "--to", "latest"): (2, "which offsets?"),
        (*reset, "-t", topic): (2, "no target: give one of"),
        (*reset, "-t", topic, "--to", "then"): (2, "--to 'then' is not valid"),
        (*reset, "-t", f"{topic}:7", "--to", "latest"): (1, f"topic '{topic}' has no partition 7"),
        (*reset, "-t", "no-topic", "--to", "latest"): (1, "topic 'no-topic' does not exist"),
        (*reset, "--all-topics", "--to", "latest"): (1, "group 'absent' has committed nothing"),
        (*reset, "-t", topic, "--shift-by", "3"): (1, "--shift-by: nothing is committed"),
        ("groups", "delete", "absent"): (2, "deleting without a terminal"),
        ("consume", topic, "-g", "x", "--to", "5"): (2, "--to is not for a member of a group"),
        ("consume", topic, "-g", "x", "-p", "0"): (2, "--partitions is not for a member"),
        ("consume", "no-topic", "-g", "x"): (1, "topic 'no-topic' does not exist"),
        ("consume", topic, "-g", ""): (1, "group ''"),
    }

    for arguments, (code, sentence) in cases.items():
        done = josefine(bootstrap, *arguments)
        assert (done.code, done.out) == (code, ""), (arguments, done.err)
        assert sentence.lower() in done.err.lower(), done.err
        assert done.err.count("\n") == 1, done.err


@pytest.mark.parametrize("verb", [("consume",), ("groups", "reset-offsets"), ("groups", "list")])
def test_help_has_examples_a_line_each(verb: tuple[str, ...]) -> None:
    shown = josefine("127.0.0.1:1", *verb, "--help").out

    assert "\\b" not in shown
    assert [line for line in shown.splitlines() if line.startswith(f"  josefine {' '.join(verb)}")]
