"""The command-line tools of Apache Kafka 4.3: each does its work and ends well."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.foreign import tool_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
Topics = Callable[..., str]
TIMEOUT_S = 120
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture
def tool(bootstrap: str) -> Callable[..., str]:
    """`tool(class, *arguments, said="")`: what it prints, stderr behind it; `said` is its input."""

    def run(main: str, *arguments: str, said: str = "", server: str = "--bootstrap-server") -> str:
        command = tool_command(main, server, bootstrap, *arguments)
        done = subprocess.run(
            command, input=said, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
        assert "Exception" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def fill(tool: Callable[..., str], topic: str, count: int = 20) -> None:
    lines = "".join(f"k{n}:v{n}\n" for n in range(count))
    config = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool("org.apache.kafka.tools.ConsoleProducer", "--topic", topic, *config, said=lines)


def test_topics(tool: Callable[..., str], make_topic: Topics) -> None:
    topic = f"{make_topic()}-of-tools"
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=-1")
    assert topic in tool(TOPICS, "--list").splitlines()
    tool(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    described = tool(TOPICS, "--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 3\b.*retention\.ms=-1", described), described
    assert described.count("Leader: 1") == 3
    tool(TOPICS, "--delete", "--topic", topic)


def test_console_producer_consumer_and_groups(tool: Callable[..., str], make_topic: Topics) -> None:
    topic = make_topic(2)
    fill(tool, topic)
    read = tool(
        CONSUME, "--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "20"
    )
    assert {line for line in read.splitlines() if line[:1] == "v"} == {f"v{n}" for n in range(20)}

    assert topic in tool(GROUPS, "--list")
    assert re.search(rf"{topic}\s.*\bEmpty\b", tool(GROUPS, "--list", "--state"))
    described = tool(GROUPS, "--describe", "--group", topic)
    assert re.findall(rf"{topic}\s+{topic}\s+[01]\s+(\d+)\s+\1\s+0\b", described), described
    tool(GROUPS, "--describe", "--group", topic, "--state")
    tool(GROUPS, "--describe", "--group", topic, "--members", "--verbose")
    reset = ("--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest", "--execute")
    assert re.search(rf"{topic}\s+[01]\s+0\b", tool(GROUPS, *reset))
    assert topic in tool("org.apache.kafka.tools.GroupsCommand", "--list")
    tool(GROUPS, "--delete-offsets", "--group", topic, "--topic", topic)
    assert "successful" in tool(GROUPS, "--delete", "--group", topic)


def test_console_consumer_by_the_consumer_protocol(
    tool: Callable[..., str], make_topic: Topics
) -> None:
    topic = make_topic()
    fill(tool, topic, 5)
    protocol = ("--command-property", "group.protocol=consumer")
    read = tool(
        CONSUME, "--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "5",
        *protocol,
    )  # fmt: skip
    assert [line for line in read.splitlines() if line[:1] == "v"] == [f"v{n}" for n in range(5)]
    assert re.search(rf"{topic}\s+Consumer\b", tool(GROUPS, "--list", "--type"), re.IGNORECASE)


def test_offsets_records_and_log_directories(
    tool: Callable[..., str], make_topic: Topics, tmp_path: Path
) -> None:
    topic = make_topic()
    fill(tool, topic, 7)
    offsets = "org.apache.kafka.tools.GetOffsetShell"
    assert f"{topic}:0:7" in tool(offsets, "--topic", topic)
    wanted = tmp_path / "wanted.json"
    partition = {"topic": topic, "partition": 0, "offset": 3}
    wanted.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    deleted = tool("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert "low_watermark: 3" in deleted
    assert f"{topic}:0:3" in tool(offsets, "--topic", topic, "--time", "earliest")
    described = tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", topic)
    assert f"{topic}-0" in described


def test_configs_of_topics_brokers_users_and_clients(
    tool: Callable[..., str], make_topic: Topics
) -> None:
    topic = make_topic()
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    tool(
        CONFIGS, *of_topic, "--alter", "--add-config", "retention.ms=7200000,segment.bytes=1048576"
    )
    assert "retention.ms=7200000" in tool(CONFIGS, *of_topic, "--describe")
    tool(CONFIGS, *of_topic, "--alter", "--delete-config", "retention.ms")
    assert "segment.bytes=1048576" in tool(CONFIGS, *of_topic, "--describe", "--all")
    assert "=" in tool(
        CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"
    )
    user = ("--entity-type", "users", "--entity-name", topic)
    tool(CONFIGS, *user, "--alter", "--add-config", "producer_byte_rate=1048576")
    assert "producer_byte_rate=1048576" in tool(CONFIGS, *user, "--describe")
    scram = "SCRAM-SHA-256=[iterations=4096,password=a secret]"
    tool(CONFIGS, *user, "--alter", "--add-config", scram)
    assert "SCRAM-SHA-256=iterations=4096" in tool(CONFIGS, *user, "--describe")
    tool(CONFIGS, *user, "--alter", "--delete-config", "SCRAM-SHA-256")
    tool(CONFIGS, *user, "--alter", "--delete-config", "producer_byte_rate")
    client = ("--entity-type", "clients", "--entity-default")
    tool(CONFIGS, *client, "--alter", "--add-config", "consumer_byte_rate=104857600")
    tool(CONFIGS, *client, "--alter", "--delete-config", "consumer_byte_rate")


@pytest.mark.parametrize(
    ("main", "arguments", "said"),
    [
        ("FeatureCommand", ["describe"], "Feature: group.version"),
        ("MetadataQuorumCommand", ["describe", "--status"], "LeaderId: +1"),
        ("MetadataQuorumCommand", ["describe", "--replication"], r"\bLeader\b"),
        ("BrokerApiVersionsCommand", [], r"Produce\(0\): "),
        ("TransactionsCommand", ["list"], "TransactionalId"),
        ("TransactionsCommand", ["find-hanging", "--broker-id", "1"], ""),
        (
            "LeaderElectionCommand",
            ["--election-type", "preferred", "--all-topic-partitions"],
            "",
        ),
    ],
)
def test_the_cluster_is_looked_at(
    tool: Callable[..., str], main: str, arguments: list[str], said: str
) -> None:
    assert re.search(said, tool(f"org.apache.kafka.tools.{main}", *arguments))


def test_partitions_are_reassigned_and_verified(
    tool: Callable[..., str], make_topic: Topics, tmp_path: Path
) -> None:
    topic = make_topic()
    plan, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    proposed = tool(
        REASSIGN, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1"
    )
    plan.write_text([line for line in proposed.splitlines() if line.startswith("{")][-1])
    tool(REASSIGN, "--execute", "--reassignment-json-file", str(plan))
    verified = tool(REASSIGN, "--verify", "--reassignment-json-file", str(plan))
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    tool(REASSIGN, "--list")


@pytest.mark.slow
def test_a_move_with_a_throttle_is_made_and_its_throttle_cleared(
    tool: Callable[..., str], make_topic: Topics, tmp_path: Path
) -> None:
    topic, plan = make_topic(), tmp_path / "plan.json"
    to = {"topic": topic, "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [to]}))
    tool(REASSIGN, "--execute", "--reassignment-json-file", str(plan), "--throttle", "1000000")
    verified = tool(REASSIGN, "--verify", "--reassignment-json-file", str(plan))
    assert f"Clearing topic-level throttles on topic {topic}" in verified
    assert "No partition reassignments found." in tool(REASSIGN, "--list")


def test_performance_and_verifiable_tools(tool: Callable[..., str], make_topic: Topics) -> None:
    topic = make_topic()
    written = tool(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "2000",
        "--record-size", "100", "--throughput", "-1",
    )  # fmt: skip
    assert "2000 records sent" in written
    tool("org.apache.kafka.tools.ConsumerPerformance", "--topic", topic, "--num-records", "2000")
    verified = tool(
        "org.apache.kafka.tools.VerifiableProducer", "--topic", topic, "--max-messages", "50"
    )
    assert verified.count('"producer_send_success"') == 50
    consumed = tool(
        "org.apache.kafka.tools.VerifiableConsumer", "--topic", topic, "--group-id", topic,
        "--reset-policy", "earliest", "--max-messages", "2050",
    )  # fmt: skip
    assert '"offsets_committed"' in consumed
