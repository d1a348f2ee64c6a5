"""Spark's own tests of its connector for Kafka, from the test jars that Spark publishes.

A class `KafkaTestUtils` of ours hides theirs: topics and records are those of the brokers that
run, where theirs starts an embedded broker. Each suite has a process of its own; they come one
after another, for all of them name their topics in the same way. Left out are suites that meet no
broker, the long ones of stress, and the two which are built on tests of delegation tokens that are
not published.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from zipfile import ZipFile

from tests.foreign.suite import (
    FAILED,
    PASSED,
    SKIPPED,
    Needs,
    Outcome,
    Outcomes,
    UnavailableError,
    build_step,
    environment,
    why_no,
)
from tests.support.maven import NoJarsError, jars_of

HERE = Path(__file__).with_name("spark_suites")
POM = HERE / "pom.xml"
VERSION = "4.2.0"  # as in the pom
NAME = f"spark-kafka-suites-{VERSION}"
TESTS = f"spark-sql-kafka-0-10_2.13-{VERSION}-tests.jar"
STUBS = "spark-connect-shims"
"""The jar of classes without code that Spark Connect's client is compiled against: they would hide
those of Spark's core."""
PACKAGE = "org.apache.spark.sql.kafka010"
SUITES = (
    "KafkaMicroBatchV2SourceWithAdminSuite",
    "ConsumerStrategySuite",
    "KafkaOffsetReaderSuite",
    "KafkaRelationSuiteV1",
    "KafkaRelationSuiteWithAdminV2",
    "KafkaSinkBatchSuiteV1",
    "KafkaSinkBatchSuiteV2",
    "KafkaSinkMicroBatchStreamingSuite",
    "KafkaContinuousSinkSuite",
    "KafkaDontFailOnDataLossSuite",
)
"""Of those that are the same tests over another interface of Spark, the newest: so a run takes a
quarter of an hour."""
SUITE_SECONDS = 900
OPENED = (
    "lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent",
    "util.concurrent.atomic",
)  # fmt: skip
OPENED_INSIDE = (
    "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)  # fmt: skip
"""Packages of Java that Spark reaches into, as its own build opens them to tests."""
RESULTS = {"failure": FAILED, "error": FAILED, "skipped": SKIPPED}
IGNORED = "the suite ignores it"
ABORTED = re.compile(
    r"^(?:\*\*\* RUN ABORTED|An exception or error caused a run to abort).*\n(.*)", re.MULTILINE
)


class SparkKafka:
    """The suites of Spark's connector that read and write through a broker."""

    name = "Spark's Kafka connector"
    version = VERSION
    needs = Needs(
        overrides={
            "broker__auto_create_topics": False,
            "group__initial_rebalance_delay_ms": 10,
            "topic_defaults__partitions": 1,
        }
    )
    """As the suites configure the broker that they embed."""
    excluded: Mapping[str, str] = {}
    reasons: Mapping[str, str] = {}

    def why_not(self) -> str:
        return why_no("java", "javac")

    def build(self) -> None:
        try:
            jars_of(POM, NAME)
        except NoJarsError as error:
            raise UnavailableError(str(error)) from error

    def run(self, bootstrap: str, scratch: Path) -> Outcomes:
        jars = [jar for jar in jars_of(POM, NAME) if STUBS not in jar]
        classes = scratch / "classes"
        # Tests read what their jar holds as files: it is unpacked, and ours then hides theirs.
        (own,) = (jar for jar in jars if TESTS in jar)
        ZipFile(own).extractall(classes)
        sources = map(str, sorted(HERE.glob("*.java")))
        build_step(
            ["javac", "-nowarn", "-d", str(classes), "-cp", os.pathsep.join(jars), *sources],
            scratch,
        )
        path = os.pathsep.join([str(classes), *jars])
        return {
            f"{suite}: {test}": outcome
            for suite in SUITES
            for test, outcome in _run(suite, path, bootstrap, scratch / suite).items()
        }


def _run(suite: str, path: str, bootstrap: str, folder: Path) -> Outcomes:
    """All tests of one suite, in a process of its own."""
    folder.mkdir()
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [
                "java", *_options(folder, bootstrap), "-cp", path, "org.scalatest.tools.Runner",
                "-oW", "-u", str(folder), "-R", path.partition(os.pathsep)[0],
                "-s", f"{PACKAGE}.{suite}",
            ],
            cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(SUITE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    report = folder / f"TEST-{PACKAGE}.{suite}.xml"
    said = output.read_text(errors="replace")
    return outcomes_of(report.read_text() if report.exists() else "", said)


def _options(folder: Path, bootstrap: str) -> list[str]:
    """Of Java: those of Spark's own build for its tests, and where the brokers are."""
    opened = [*(f"java.{each}" for each in OPENED), *OPENED_INSIDE]
    return [
        "-Xmx2g", "-Xss4m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in opened),
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dspark.testing=1",
        "-Dspark.ui.enabled=false",
        f"-Djava.io.tmpdir={folder}",
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        f"-Djosefine.bootstrap={bootstrap}",
    ]  # fmt: skip


def outcomes_of(report: str, said: str) -> Outcomes:
    """Of a suite's JUnit report. One that could not begin, or was stopped, has none: then of what
    it printed."""
    if not report:
        aborted = ABORTED.search(said)
        why = aborted[1].strip() if aborted else f"it did not end within {SUITE_SECONDS} s"
        return {"all": Outcome(FAILED, why[:300])}
    found: dict[str, Outcome] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        end = next((each for each in case if each.tag in RESULTS), None)
        if end is None:
            found[case.get("name", "")] = Outcome(PASSED)
        else:
            said = " ".join(end.get("message", IGNORED).split())[:300]
            found[case.get("name", "")] = Outcome(RESULTS[end.tag], said)
    return found
