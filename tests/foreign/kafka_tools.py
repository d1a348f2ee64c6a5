"""Apache Kafka's verifiable clients, with which its own system tests look at a cluster.

They ship as classes, not as tests: ClientCompatibilityTest is a whole test; the others report what
was acknowledged, read or committed, and a case here says what they must have reported.
"""

from __future__ import annotations

import json
import os
import subprocess
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.foreign.suite import (
    FAILED,
    PASSED,
    Needs,
    Outcome,
    Outcomes,
    UnavailableError,
    why_no,
)
from tests.support.apache_kafka import NAME, POM, VERSION
from tests.support.maven import NoJarsError, jars_of

BROKERS = 3
COUNT = 2_000
ANSWERS = {"accept": 1, "reject": 1, "renew": 2}
"""How often a record of a share group is answered. Released ones are left out: the tool gets one of
the next deliveries after its lock has ended, with Apache Kafka's brokers, too."""
TOOL_SECONDS = 180
PACKAGE = "org.apache.kafka.tools"


class KafkaTools:
    """The tools of one cluster, and a case for each way that system tests use them."""

    name = "Apache Kafka verifiable clients"
    version = VERSION
    needs = Needs(brokers=BROKERS)
    excluded: Mapping[str, str] = {}
    reasons: Mapping[str, str] = {}

    def why_not(self) -> str:
        return why_no("java")

    def build(self) -> None:
        try:
            jars_of(POM, NAME)
        except NoJarsError as error:
            raise UnavailableError(str(error)) from error

    def run(self, bootstrap: str, scratch: Path) -> Outcomes:
        return {name: _outcome(case, Tools(bootstrap, name)) for name, case in CASES.items()}


class Tools:
    """Runs tools for one case; topics and groups are named after the case."""

    def __init__(self, bootstrap: str, case: str) -> None:
        self.bootstrap = bootstrap
        self.topic = "".join(letter if letter.isalnum() else "-" for letter in case)

    def __call__(self, tool: str, *arguments: str) -> str:
        """What a tool printed. Raises AssertionError where it failed."""
        jars = os.pathsep.join(jars_of(POM, NAME))
        quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", jars)
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        done = subprocess.run(
            ["java", *quick, quiet, f"{PACKAGE}.{tool}", *arguments],
            capture_output=True, text=True, timeout=TOOL_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, f"{tool}: {done.returncode}: {done.stdout}{done.stderr}"
        assert "Exception" not in done.stderr, f"{tool}: {done.stderr}"
        return done.stdout

    def events(self, tool: str, *arguments: str) -> list[dict[str, Any]]:
        """What a tool printed, an object a line."""
        lines = self(tool, "--bootstrap-server", self.bootstrap, *arguments).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def make_topic(self, topic: str, partitions: int) -> None:
        """Create one with a copy on each broker."""
        self(
            "TopicCommand", "--bootstrap-server", self.bootstrap, "--create", "--topic", topic,
            "--partitions", str(partitions), "--replication-factor", str(BROKERS),
        )  # fmt: skip

    def produce(self, *arguments: str) -> list[dict[str, Any]]:
        """`COUNT` records by the verifiable producer."""
        counted = ("--topic", self.topic, "--max-messages", str(COUNT))
        return self.events("VerifiableProducer", *counted, *arguments)

    def consume(self, *arguments: str) -> list[dict[str, Any]]:
        """`COUNT` records by the verifiable consumer, with its assignments and commits."""
        counted = ("--topic", self.topic, "--max-messages", str(COUNT), "--group-id", self.topic)
        return self.events("VerifiableConsumer", *counted, *arguments)

    def share(self, *arguments: str) -> list[dict[str, Any]]:
        """What the verifiable share consumer said, in a group that starts at the beginning."""
        where = ("--topic", self.topic, "--group-id", self.topic)
        start = ("--offset-reset-strategy", "earliest")
        return self.events("VerifiableShareConsumer", *where, *start, *arguments)


def _outcome(case: Callable[[Tools], None], tools: Tools) -> Outcome:
    try:
        case(tools)
    except (AssertionError, subprocess.TimeoutExpired, ValueError):
        return Outcome(FAILED, traceback.format_exc(limit=-1).splitlines()[-1][:300])
    return Outcome(PASSED)


def _compatible(tools: Tools) -> None:
    supported = ("offsets-for-times", "cluster-id", "create-topics", "describe-acls")
    flags = [f"--{each}-supported=True" for each in (*supported, "describe-configs")]
    tools.make_topic(tools.topic, 1)
    said = tools(
        "ClientCompatibilityTest", "--bootstrap-server", tools.bootstrap, "--topic", tools.topic,
        "--idempotent-producer-supported=True", "--expect-record-too-large-exception=False",
        f"--num-cluster-nodes={BROKERS}", *flags,
    )  # fmt: skip
    assert "SUCCESS" in said, said


def _produced(*arguments: str) -> Callable[[Tools], None]:
    def case(tools: Tools) -> None:
        tools.make_topic(tools.topic, 3)
        events = tools.produce(*arguments)
        acknowledged = [each for each in events if each["name"] == "producer_send_success"]
        assert sorted(int(each["value"].rpartition(".")[2]) for each in acknowledged) == [
            *range(COUNT)
        ]
        places = {(each["partition"], each["offset"]) for each in acknowledged}
        # Without acknowledgement there are no offsets.
        assert len(places) == COUNT or "0" in arguments, places

    return case


def _consumed(*arguments: str) -> Callable[[Tools], None]:
    def case(tools: Tools) -> None:
        tools.make_topic(tools.topic, 3)
        sent = {
            (each["partition"], each["offset"], each["value"])
            for each in tools.produce()
            if each["name"] == "producer_send_success"
        }
        events = tools.consume("--verbose", *arguments)
        read = [each for each in events if each["name"] == "record_data"]
        assert {(each["partition"], each["offset"], each["value"]) for each in read} == sent
        assert len(read) == COUNT
        assigned = [each for each in events if each["name"] == "partitions_assigned"]
        assert len(assigned[-1]["partitions"]) == 3
        if "--enable-autocommit" not in arguments:
            commits = [each for each in events if each["name"] == "offsets_committed"]
            assert commits, events
            assert all(each["success"] for each in commits)

    return case


def _shared(pattern: str, *arguments: str) -> Callable[[Tools], None]:
    """All records by one member that answers each by its offset: that entry of the pattern. A
    renewal is an answer before the next entry."""

    def case(tools: Tools) -> None:
        tools.make_topic(tools.topic, 3)
        sent = [each for each in tools.produce() if each["name"] == "producer_send_success"]
        answers = pattern.split(",")
        wanted = Counter[tuple[int, int]]()
        for each in sent:
            answer = answers[each["offset"] % len(answers)]
            wanted[each["partition"], each["offset"]] = ANSWERS[answer]
        explicit = ("--ack-pattern", pattern) if pattern != "accept" else ()
        events = tools.share(
            "--verbose", "--max-messages", str(wanted.total()), *explicit, *arguments
        )
        read = [each for each in events if each["name"] == "record_data"]
        assert {(each["partition"], each["offset"], each["value"]) for each in read} == {
            (each["partition"], each["offset"], each["value"]) for each in sent
        }
        assert Counter((each["partition"], each["offset"]) for each in read) == wanted
        answered = [each for each in events if each["name"] == "offsets_acknowledged"]
        assert all(each["success"] for each in answered), answered
        assert wanted == Counter(
            (part["partition"], offset)
            for each in answered
            for part in each["partitions"]
            for offset in part["offsets"]
        )

    return case


def _copied(*arguments: str) -> Callable[[Tools], None]:
    def case(tools: Tools) -> None:
        target = f"{tools.topic}-copy"
        tools.make_topic(tools.topic, 1)
        tools.make_topic(target, 1)
        sent = [each["value"] for each in tools.produce() if "value" in each]
        tools(
            "TransactionalMessageCopier", "--broker-list", tools.bootstrap,
            "--input-topic", tools.topic, "--input-partition", "0", "--output-topic", target,
            "--max-messages", str(COUNT), "--consumer-group", tools.topic,
            "--transaction-size", "100", "--transactional-id", tools.topic, *arguments,
        )  # fmt: skip
        copy = tools(
            "consumer.ConsoleConsumer", "--bootstrap-server", tools.bootstrap, "--topic", target,
            "--from-beginning", "--isolation-level", "read_committed",
            "--max-messages", str(COUNT), "--timeout-ms", "60000",
        ).split()  # fmt: skip
        assert copy == sent

    return case


def _measured(tools: Tools) -> None:
    tools.make_topic(tools.topic, 1)
    said = tools("EndToEndLatency", tools.bootstrap, tools.topic, "200", "all", "100")
    assert "Avg latency" in said, said


def _performed(*arguments: str) -> Callable[[Tools], None]:
    def case(tools: Tools) -> None:
        tools.make_topic(tools.topic, 3)
        said = tools(
            "ProducerPerformance", "--bootstrap-server", tools.bootstrap, "--topic", tools.topic,
            "--num-records", "20000", "--record-size", "100", "--throughput", "-1", *arguments,
        )  # fmt: skip
        assert "20000 records sent" in said, said
        read = tools(
            "ConsumerPerformance", "--bootstrap-server", tools.bootstrap, "--topic", tools.topic,
            "--num-records", "20000", "--timeout", "60000",
        )  # fmt: skip
        assert ", 20000, " in read, read

    return case


def _performed_shared(*arguments: str) -> Callable[[Tools], None]:
    def case(tools: Tools) -> None:
        tools.make_topic(tools.topic, 3)
        tools.produce()
        tools.share("--max-messages", "0")  # only sets where the group starts
        said = tools(
            "ShareConsumerPerformance", "--bootstrap-server", tools.bootstrap,
            "--topic", tools.topic, "--group", tools.topic, "--num-records", str(COUNT),
            "--timeout", "60000", *arguments,
        )  # fmt: skip
        assert f", {COUNT}, " in said, said

    return case


def _cases() -> Iterator[tuple[str, Callable[[Tools], None]]]:
    yield "ClientCompatibilityTest", _compatible
    for acks in ("-1", "1", "0"):
        yield f"VerifiableProducer acks={acks}", _produced("--acks", acks)
    yield "VerifiableProducer keys", _produced("--repeating-keys", "7", "--value-prefix", "5")
    yield "VerifiableProducer create time", _produced("--message-create-time", "1000")
    for assignor in ("Range", "RoundRobin", "Sticky", "CooperativeSticky"):
        strategy = f"org.apache.kafka.clients.consumer.{assignor}Assignor"
        case = _consumed("--assignment-strategy", strategy)
        yield f"VerifiableConsumer classic {assignor}", case
    yield "VerifiableConsumer autocommit", _consumed("--enable-autocommit")
    yield "VerifiableConsumer static", _consumed("--group-instance-id", "one")
    for remote in ("uniform", "range"):
        case = _consumed("--group-protocol", "consumer", "--group-remote-assignor", remote)
        yield f"VerifiableConsumer consumer {remote}", case
    yield "TransactionalMessageCopier", _copied()
    yield "TransactionalMessageCopier aborts", _copied("--enable-random-aborts")
    yield "TransactionalMessageCopier group", _copied("--group-mode", "--use-group-metadata")
    yield "EndToEndLatency", _measured
    yield "ProducerPerformance and ConsumerPerformance", _performed()
    yield "ProducerPerformance transactions", _performed("--transactional-id", "perf")
    for mode in ("auto", "async", "sync"):
        case = _shared("accept", "--acknowledgement-mode", mode)
        yield f"VerifiableShareConsumer {mode}", case
    for pattern in ("accept,reject", "renew,accept"):
        case = _shared(pattern, "--acknowledgement-mode", "sync")
        yield f"VerifiableShareConsumer {pattern}", case
    yield "ShareConsumerPerformance", _performed_shared()
    yield "ShareConsumerPerformance 3 members", _performed_shared("--threads", "3")


CASES: Mapping[str, Callable[[Tools], None]] = dict(_cases())
