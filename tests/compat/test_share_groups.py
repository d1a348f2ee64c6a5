"""Share groups with the clients of Apache Kafka 4.4: its console share consumer and its tools."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record
from josefine_broker.records.reader import read_records
from tests.compat.foreign import tool_command
from tests.compat.test_kafka_tools import CONFIGS, Topics, fill, tool
from tests.support.waiting import wait_until

__all__ = ["tool"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSUME_PLAINLY = "org.apache.kafka.tools.consumer.ConsoleConsumer"
STATES = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
CONSUME = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
TIMEOUT_S = 120
Tool = Callable[..., str]


@contextmanager
def consumer(bootstrap: str, topic: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A console share consumer of the topic, in the group of that name."""
    where = ("--topic", topic, "--group", topic)
    command = tool_command(CONSUME, "--bootstrap-server", bootstrap, *where, *arguments)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read(process: subprocess.Popen[str]) -> list[str]:
    """The values that it has printed when it has ended."""
    out, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out + errors
    assert "ERROR" not in errors, errors
    return [line for line in out.splitlines() if line[:1] == "v"]


def offsets(bootstrap: str, group_id: str) -> str:
    """What the tool says of a group that may not be there yet."""
    command = tool_command(
        GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group_id
    )
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S).stdout


def test_console_share_consumers(
    tool: Tool, make_topic: Topics, bootstrap: str, client: BlockingClient
) -> None:
    topic = make_topic(2)
    with consumer(bootstrap, topic, "--max-messages", "20") as first:
        started = rf"{topic}\s+{topic}\s+[01]\s+0\s+0\b"
        wait_until(
            lambda: len(re.findall(started, offsets(bootstrap, topic))) == 2,
            timeout_s=TIMEOUT_S,
            what="the group starts in both partitions",
        )
        fill(tool, topic)
        assert sorted(read(first)) == sorted(f"v{n}" for n in range(20))

    assert topic in tool(GROUPS, "--list")
    described = tool(GROUPS, "--describe", "--group", topic)
    rows = re.findall(rf"{topic}\s+{topic}\s+[01]\s+(\d+)\s+0\b", described)
    assert sum(map(int, rows)) == 20, described
    # Once more from the start: everything was accepted, and is there again when asked for.
    where = ("--group", topic, "--topic", topic)
    tool(GROUPS, "--reset-offsets", "--to-earliest", *where, "--execute")
    with consumer(bootstrap, topic, "--max-messages", "20") as again:
        assert sorted(read(again)) == sorted(f"v{n}" for n in range(20))
    tool(GROUPS, "--delete-offsets", *where)
    tool(GROUPS, "--delete", "--group", topic)
    assert topic not in tool(GROUPS, "--list")


def test_configuration_of_a_group(
    tool: Tool, make_topic: Topics, bootstrap: str, client: BlockingClient
) -> None:
    """With it a group starts at the beginning, and its states are records as Kafka's own tool reads
    them."""
    topic = make_topic(1)
    fill(tool, topic)
    group = ("--entity-type", "groups", "--entity-name", topic)
    values = "share.auto.offset.reset=earliest,share.record.lock.duration.ms=20000"
    tool(CONFIGS, "--alter", "--add-config", values, *group)
    described = tool(CONFIGS, "--describe", *group)
    assert re.search(r"share\.record\.lock\.duration\.ms=20000\b", described), described
    with consumer(bootstrap, topic, "--max-messages", "20") as first:
        assert sorted(read(first)) == sorted(f"v{n}" for n in range(20))
    where = ("--topic", "__share_group_state", "--from-beginning", "--timeout-ms", "20000")
    command = tool_command(
        CONSUME_PLAINLY, "--bootstrap-server", bootstrap, *where, "--formatter", STATES
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    states, left = [], done.stdout.lstrip()
    while left.startswith("{"):  # one after another, without a separator
        state, end = json.JSONDecoder().raw_decode(left)
        states.append(state)
        left = left[end:].lstrip()
    ours = [each for each in states if each["key"]["data"]["groupId"] == topic]
    assert ours, done.stdout + done.stderr
    last = ours[-1]["value"]["data"]
    assert (last["startOffset"], last["stateBatches"]) == (20, []), ours
    tool(CONFIGS, "--alter", "--delete-config", "share.auto.offset.reset", *group)
    assert "share.auto.offset.reset=earliest" not in tool(CONFIGS, "--describe", *group)


def letters_in(client: BlockingClient, topic: str) -> list[Record]:
    tp = TopicPartition(topic, 0)
    data = client.fetch({tp: 0})[tp].records
    return (
        []
        if data is None
        else [
            record
            for pos, header in iter_batches(data)
            for record in read_records(data[pos : pos + header.size_bytes])
        ]
    )


def test_rejected_records_become_dead_letters(
    tool: Tool, make_topic: Topics, bootstrap: str, client: BlockingClient
) -> None:
    """As Apache Kafka 4.4 writes them: run with `python -m tests.support.apache_kafka`, too."""
    topic = make_topic(1)
    fill(tool, topic)
    letters = f"dlq.{topic}"
    takes = {"errors.deadletterqueue.group.enable": "true"}
    client.create_topics([NewTopic(letters, partitions=1, configs=takes)])
    group = ("--entity-type", "groups", "--entity-name", topic)
    values = (
        f"share.auto.offset.reset=earliest,errors.deadletterqueue.topic.name={letters},"
        "errors.deadletterqueue.copy.record.enable=true"
    )
    tool(CONFIGS, "--alter", "--add-config", values, *group)
    with consumer(bootstrap, topic, "--max-messages", "20", "--reject") as first:
        assert sorted(read(first)) == sorted(f"v{n}" for n in range(20))
    found: list[dict[str, str]] = []

    def all_there() -> bool:
        found.clear()
        for record in letters_in(client, letters):
            told = {name: str(value or b"", "utf-8") for name, value in record.headers}
            found.append({**told, "value": str(record.value or b"", "utf-8")})
        return len(found) >= 20

    wait_until(all_there, timeout_s=TIMEOUT_S, what="every letter is written")
    prefix = "__dlq.errors."
    assert found == [
        {
            f"{prefix}topic": topic,
            f"{prefix}partition": "0",
            f"{prefix}offset": str(n),
            f"{prefix}group": topic,
            f"{prefix}delivery.count": "1",
            f"{prefix}message": "Offset rejected by client.",
            "value": f"v{n}",
        }
        for n in range(20)
    ]
    assert [list(each) for each in found] == [list(found[0])] * 20
    rows = re.findall(rf"{topic}\s+{topic}\s+0\s+20\s+0\b", offsets(bootstrap, topic))
    assert rows, offsets(bootstrap, topic)
