"""Share groups with the clients of Apache Kafka 4.4: its console share consumer and its tools."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from josefine_broker.client.io_blocking import BlockingClient
from tests.compat.foreign import tool_command
from tests.compat.test_kafka_tools import Topics, fill, tool
from tests.support.waiting import wait_until

__all__ = ["tool"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
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
