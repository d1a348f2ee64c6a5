"""franz-go's own tests of its client (package kgo), against a cluster of three.

The Go module carries its tests, so `go test` runs them from the module cache. Most tests of the
package need no broker and prove nothing about one: only those are run whose code asks for one.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
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

PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
RECORDS = 20_000
"""Of each test that copies records through groups or transactions; the suite's own default is
500,000, for brokers on a machine of their own."""
LIMIT_SECONDS = 1_500
ASKS_FOR_A_BROKER = re.compile(
    r"\b(newTestClient|testClientOpts|getSeedBrokers|tmpTopic\w*|tmpNamedTopic\w*|adm)\("
)
TEST = re.compile(r"^func (Test\w+)\(.*?^\}", re.MULTILINE | re.DOTALL)
RESULTS = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
SAID = re.compile(r"^\s+\w+_test\.go:\d+: (.*)", re.DOTALL)


class FranzGo:
    """Package kgo of franz-go."""

    name = "franz-go (kgo)"
    version = "1.22.3"
    needs = Needs(brokers=3)
    excluded: Mapping[str, str] = {}
    reasons: Mapping[str, str] = {
        "TestIssueProduceBrokerTooOldFailsRecords": (
            "the test is for brokers that no longer take version 2 of Produce"
        ),
    }

    def why_not(self) -> str:
        return why_no("go")

    def build(self) -> None:
        self._folder()

    def run(self, bootstrap: str, scratch: Path) -> Outcomes:
        folder = self._folder()
        listed = build_step(["go", "list", "-f", "{{.Dir}}", PACKAGE], folder)
        wanted = tests_that_ask(each.read_text() for each in Path(listed.strip()).glob("*_test.go"))
        command = [
            "go", "test", "-json", "-count=1", "-parallel=2", f"-timeout={LIMIT_SECONDS}s",
            f"-run=^({'|'.join(wanted)})$", PACKAGE,
        ]  # fmt: skip
        settings = environment(
            KGO_SEEDS=bootstrap,
            KGO_TEST_RF=str(self.needs.brokers),
            KGO_TEST_RECORDS=str(RECORDS),
            KGO_LOG_LEVEL="none",
        )
        done = subprocess.run(
            command, cwd=folder, env=settings, capture_output=True, text=True,
            timeout=LIMIT_SECONDS + 300,
        )  # fmt: skip
        (scratch / "output.json").write_text(done.stdout + done.stderr)
        return outcomes_of(done.stdout.splitlines(), wanted)

    def _folder(self) -> Path:
        return built(f"franz-go-{self.version}", self._make)

    def _make(self, folder: Path) -> None:
        (folder / "go.mod").write_text("module josefine-foreign\n\ngo 1.26.0\n")
        build_step(["go", "get", f"{PACKAGE}@v{self.version}"], folder)
        build_step(["go", "test", "-run=^$", PACKAGE], folder)


def tests_that_ask(files: Iterable[str]) -> list[str]:
    """The tests in these sources whose code asks for a broker."""
    return sorted(
        test[1]
        for text in files
        for test in TEST.finditer(text)
        if ASKS_FOR_A_BROKER.search(test[0])
    )


def outcomes_of(lines: Iterable[str], wanted: Iterable[str]) -> Outcomes:
    """Of `go test -json`; of a test with subtests only those count. One that did not end failed."""
    ends: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    for line in lines:
        event = json.loads(line) if line.startswith("{") else {}
        test = event.get("Test")
        if test is None:
            continue
        if event["Action"] == "output" and (match := SAID.match(event["Output"])):
            said.setdefault(test, []).append(match[1].strip())
        elif event["Action"] in RESULTS:
            ends[test] = RESULTS[event["Action"]]
        else:
            ends.setdefault(test, "")
    for test in wanted:
        ends.setdefault(test, "")
    parents = {test.rpartition("/")[0] for test in ends}
    return {
        test: Outcome(result or FAILED, _reason(result, said.get(test, [])))
        for test, result in sorted(ends.items())
        if test not in parents
    }


def _reason(result: str, said: list[str]) -> str:
    if result == PASSED:
        return ""
    return said[0][:300] if said else f"it did not end within {LIMIT_SECONDS} s"
