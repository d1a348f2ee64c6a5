"""librdkafka's own test runner, built from the source that Confluent's npm package carries.

Each number of tests runs in a process of its own: the runner aborts at some failures, which would
end the rest. Tests that need no broker (mock clusters and units, local ones for the runner) are
left out: they prove nothing about one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.foreign.suite import (
    FAILED,
    PASSED,
    SKIPPED,
    Needs,
    Outcome,
    Outcomes,
    UnavailableError,
    build_step,
    built,
    environment,
    why_no,
)
from tests.support.apache_kafka import NAME, POM
from tests.support.maven import NoJarsError, jars_of

CARRIER = "@confluentinc/kafka-javascript@1.10.1"
KAFKA_VERSION = "4.4.0"
"""What the runner takes the brokers for: it skips tests of what came later."""
TEST_SECONDS = 300
LONGER_SECONDS: Mapping[str, int] = {"0174": 1_500}
"""Of tests that allow themselves more. This one waits for some 43,000 small writes, one after the
other: 220 s if each takes 5 ms."""
AT_A_TIME = 4
"""Most tests wait most of the time; the runner by itself takes five."""
ROW = re.compile(
    r"^\s+_TEST\((\d{4}_\w+),\s*([\w |]*)((?:(?!^\s+_TEST).)*)", re.MULTILINE | re.DOTALL
)
"""A test in the runner's table, its flags, and the rest of its row."""
LEFT_OUT = frozenset({"TEST_F_LOCAL", "TEST_F_MANUAL", "TEST_F_KNOWN_ISSUE"})
"""Those of known issues are left out by the runner itself."""
DEFAULT, NO_AUTO_CREATE = "default", "noautocreate"
"""Scenarios of the runner: which brokers a test wants."""
SCENARIO = "it needs brokers that create no topics by themselves: a run of its own has those"
REASONS: Mapping[str, str] = {
    "0045_subscribe_update_*": SCENARIO,
    "0081_admin": "a broker's settings are in its file, and cannot be changed by a client",
    "0107_topic_recreate": SCENARIO,
    "0111_delay_create_topics": SCENARIO,
    "0173_share_consumer_commit_async": (
        "it sets locks of 3 s, below Kafka's default bound of 15 s, too "
        "(`group.share.min.record.lock.duration.ms`); it passes on brokers whose own lock is 3 s"
    ),
}
"""Of the default scenario."""
STATES = {"PASSED": PASSED, "SKIPPED": SKIPPED}
FAILURE = re.compile(r'^### Test "(\w+)[^"]*" failed at .*: ###\n(.*)', re.MULTILINE)
SKIP = re.compile(r"^\[(\w+) +/.*SKIPPING TEST: ([^\[\n]*)", re.MULTILINE)
SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
}
DID_NOTHING = "it did nothing, and says so to nobody"
LEFT_OUT_IF_QUICK = (DID_NOTHING, "Test skipped due to quick mode")
DID_NOTHING_SECONDS = 0.001
"""No test meets a broker in less."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Librdkafka:
    """The test runner for one scenario, in its quick mode where that leaves anything to do."""

    version = "2.15.1"
    excluded: Mapping[str, str] = {
        "0077_compaction": "it asks for segments of 10 kB, which Kafka 4 refuses",
        "0171_share_consumer_consume": "it needs a librdkafka with zstd, which is built without",
    }

    def __init__(self, scenario: str = DEFAULT) -> None:
        self.name = "librdkafka" if scenario == DEFAULT else f"librdkafka, {scenario}"
        # As the project's own scripts configure the brokers that they start.
        self.needs = Needs(
            brokers=3,
            overrides={
                "topic_defaults__partitions": 4,
                "group__min_session_timeout_ms": 1_000,
                "broker__auto_create_topics": scenario != NO_AUTO_CREATE,
            },
            has_acls=True,
        )
        self.reasons = REASONS if scenario == DEFAULT else {}
        self._scenario = scenario

    def why_not(self) -> str:
        return why_no("npm", "gcc", "g++", "make", "tar", "java")

    def build(self) -> None:
        self._folder()
        try:
            jars_of(POM, NAME)
        except NoJarsError as error:
            raise UnavailableError(str(error)) from error

    def run(self, bootstrap: str, scratch: Path) -> Outcomes:
        tests = self._folder() / "tests"
        config = scratch / "test.conf"
        config.write_text(f"bootstrap.servers={bootstrap}\ntest.timeout.multiplier=3\n")
        tools = {
            "BROKERS": bootstrap,
            "KAFKA_PATH": str(_scripts(scratch / "kafka")),
            "TEST_SCENARIO": self._scenario,
        }
        numbers: dict[str, list[str]] = {}
        for test in tests_with_brokers((tests / "test.c").read_text(), self._scenario):
            numbers.setdefault(test[:4], []).append(test)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            found = pool.map(lambda each: _run(each, tests, config, tools), numbers.values())
            return {test: outcome for each in found for test, outcome in each.items()}

    def _folder(self) -> Path:
        return built(f"librdkafka-{self.version}", _make)


def _make(folder: Path) -> None:
    build_step(["npm", "pack", "--silent", CARRIER], folder)
    (archive,) = folder.glob("*.tgz")
    inside = "package/deps/librdkafka"
    build_step(["tar", "xzf", archive.name, "--strip-components=3", inside], folder)
    archive.unlink()
    # The package loses the executable bits.
    for script in ("configure", "lds-gen.py"):
        (folder / script).chmod(0o755)
    build_step(["bash", "./configure", "--disable-curl", "--disable-gssapi"], folder)
    cores = len(os.sched_getaffinity(0))
    build_step(["make", f"-j{cores}", "libs"], folder)
    build_step(["make", "-C", "tests", f"-j{cores}", "test-runner"], folder)


def tests_with_brokers(table: str, scenario: str) -> list[str]:
    """The tests of the runner's table that its whole run would start against brokers; in another
    scenario than the default only the tests that name it, for the runner skips the others."""
    return [
        test
        for test, flags, rest in ROW.findall(table)
        if not LEFT_OUT & {*flags.split()} and not test.endswith("_mock")
        if scenario == DEFAULT or f'.scenario = "{scenario}"' in rest
    ]


def _scripts(folder: Path) -> Path:
    """As in Apache Kafka's archive, those of its scripts that tests call."""
    (folder / "bin").mkdir(parents=True)
    jars = os.pathsep.join(jars_of(POM, NAME))
    for name, main in SCRIPTS.items():
        script = folder / "bin" / name
        line = f'exec java -XX:TieredStopAtLevel=1 -Xmx256m -cp "{jars}" {main} "$@"'
        script.write_text(f"#!/bin/sh\n{line}\n")
        script.chmod(0o755)
    return folder


def _run(wanted: list[str], folder: Path, config: Path, tools: Mapping[str, str]) -> Outcomes:
    """The tests of one number: in quick mode, and in full if that leaves out all of a test."""
    if any("_share_consumer_" in each for each in wanted):  # quick, they say nothing and pass
        return _start(wanted, folder, config, tools)
    quick = _start(wanted, folder, config, tools, "-Q")
    if not any(outcome.reason in LEFT_OUT_IF_QUICK for outcome in quick.values()):
        return quick
    return _start(wanted, folder, config, tools)


def _start(
    wanted: list[str], folder: Path, config: Path, tools: Mapping[str, str], *mode: str
) -> Outcomes:
    """The tests of one number, which the runner starts together."""
    number = wanted[0][:4]
    report, output = (config.with_name(f"{number}.{end}") for end in ("json", "txt"))
    settings = environment(
        TESTS=number,
        TEST_KAFKA_VERSION=KAFKA_VERSION,
        TEST_REPORT=str(report),
        RDKAFKA_TEST_CONF=str(config),
        LD_LIBRARY_PATH=f"{folder.parent}/src:{folder.parent}/src-cpp",
        **tools,
    )
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["./test-runner", "-p1", "-L", *mode],
            cwd=folder, env=settings, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(_limit_of(number))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # some tests start processes
            process.wait()
    said = output.read_text(errors="replace")
    known = report.read_text() if report.exists() else ""
    return {test: outcome_of(test, known, said) for test in wanted}


def outcome_of(test: str, report: str, said: str) -> Outcome:
    """By the runner's report, which it does not write when it aborts or is stopped."""
    try:
        known = json.loads(report)["tests"][test]
    except (ValueError, KeyError):
        known = {"state": "ENDED", "duration": 0}
    result = STATES.get(known["state"], FAILED)
    if result == PASSED and known["duration"] < DID_NOTHING_SECONDS:
        return Outcome(SKIPPED, DID_NOTHING)
    if result == PASSED:
        return Outcome(PASSED)
    plain = COLOUR.sub("", said)
    found = [
        each for each in (SKIP if result == SKIPPED else FAILURE).findall(plain) if each[0] == test
    ]
    if found:
        return Outcome(result, found[0][1][:300])
    return Outcome(
        result, f"the runner reports no reason ({known['state']}); limit {_limit_of(test[:4])} s"
    )


def _limit_of(number: str) -> int:
    return LONGER_SECONDS.get(number, TEST_SECONDS)
