"""librdkafka's own test runner, built from the source that the npm package of node-rdkafka carries.

Each test runs in a process of its own: the runner aborts at some failures, which would end the
rest. Tests that need no broker (mock clusters and units, local ones for the runner) are left out:
they prove nothing about one.
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
    build_step,
    built,
    environment,
    why_no,
)

CARRIER = "node-rdkafka@3.6.1"
KAFKA_VERSION = "4.0.0"
"""What the runner takes the brokers for: it skips tests of what came later."""
TEST_SECONDS = 300
AT_A_TIME = 4
"""Most tests wait most of the time; the runner by itself takes five."""
ROW = re.compile(r"^\s+_TEST\((\d{4}_\w+),\s*([\w |]*)", re.MULTILINE)
"""A test in the runner's table, and its flags."""
LEFT_OUT = frozenset({"TEST_F_LOCAL", "TEST_F_MANUAL", "TEST_F_KNOWN_ISSUE"})
"""Those of known issues are left out by the runner itself."""
STATES = {"PASSED": PASSED, "SKIPPED": SKIPPED}
FAILURE = re.compile(r'^\S*### Test "[^"]*" failed at .*: ###\n(.*)', re.MULTILINE)
SKIP = re.compile(r"SKIPPING TEST: (.*)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Librdkafka:
    """The test runner in its quick mode, one test after the other."""

    name = "librdkafka"
    version = "2.12.0"
    needs = Needs(brokers=3)
    reasons: Mapping[str, str] = {}

    def why_not(self) -> str:
        return why_no("npm", "gcc", "g++", "make", "tar")

    def build(self) -> None:
        self._folder()

    def run(self, bootstrap: str, scratch: Path) -> Outcomes:
        tests = self._folder() / "tests"
        config = scratch / "test.conf"
        config.write_text(f"bootstrap.servers={bootstrap}\ntest.timeout.multiplier=3\n")
        wanted = tests_with_brokers((tests / "test.c").read_text())
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return dict(
                zip(wanted, pool.map(lambda test: _run(test, tests, config), wanted), strict=True)
            )

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


def tests_with_brokers(table: str) -> list[str]:
    """The tests of the runner's table that its whole run would start against brokers."""
    return [test for test, flags in ROW.findall(table) if not LEFT_OUT & {*flags.split()}]


def _run(test: str, folder: Path, config: Path) -> Outcome:
    report = config.with_name(f"{test}.json")
    settings = environment(
        TESTS=test[:4],
        TEST_KAFKA_VERSION=KAFKA_VERSION,
        TEST_REPORT=str(report),
        RDKAFKA_TEST_CONF=str(config),
        LD_LIBRARY_PATH=f"{folder.parent}/src:{folder.parent}/src-cpp",
    )
    output = config.with_name(f"{test}.txt")
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["./test-runner", "-p1", "-Q", "-L"],
            cwd=folder, env=settings, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(TEST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # some tests start processes
            process.wait()
            return Outcome(FAILED, f"it did not end within {TEST_SECONDS} s")
    said = output.read_text(errors="replace")
    return outcome_of(test, report.read_text() if report.exists() else "", said)


def outcome_of(test: str, report: str, said: str) -> Outcome:
    """By the runner's report, which it does not write when it aborts."""
    try:
        state = json.loads(report)["tests"][test]["state"]
    except (ValueError, KeyError):
        state = "ABORTED"
    result = STATES.get(state, FAILED)
    if result == PASSED:
        return Outcome(PASSED)
    found = (SKIP if result == SKIPPED else FAILURE).search(COLOUR.sub("", said))
    return Outcome(result, found[1][:300] if found else f"the runner says {state}")
