"""The table of foreign test suites in COMPATIBILITY.md, from the runs of `./build.sh test foreign`.

A run of a suite replaces its row in `results.json`: version, commit, date, how many of its tests
passed, failed and were skipped, and each test that did not pass with its reason.
`python -m tests.foreign.results`, which `./build.sh lint` calls, warns of a row older than a
month.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.compat.matrix import AGE_MAX, commit
from tests.foreign.suite import FAILED, PASSED, SKIPPED, Outcome, Outcomes, Suite

FILE = Path(__file__).with_name("results.json")
TARGET = 0.95
"""Of the tests that can apply: those that were not skipped."""


def explained(
    outcomes: Outcomes, reasons: Mapping[str, str], excluded: Mapping[str, str]
) -> Outcomes:
    """The same, with the exclusions, and with the reasons that were written by hand in the place of
    what a test printed."""
    return {test: _explained(test, outcomes[test], reasons, excluded) for test in outcomes}


def _explained(
    test: str, outcome: Outcome, reasons: Mapping[str, str], excluded: Mapping[str, str]
) -> Outcome:
    if why := _matching(test, excluded):
        return Outcome(SKIPPED, why)
    if outcome.result == PASSED:
        return outcome
    return outcome._replace(reason=_matching(test, reasons) or outcome.reason)


def _matching(test: str, reasons: Mapping[str, str]) -> str:
    return next((why for pattern, why in reasons.items() if fnmatchcase(test, pattern)), "")


def unexplained(outcomes: Outcomes, reasons: Mapping[str, str]) -> list[str]:
    """The failures for which nobody has written a reason."""
    return [
        f"{test}: {outcome.reason}"
        for test, outcome in outcomes.items()
        if outcome.result == FAILED and not _matching(test, reasons)
    ]


def share_passed(counts: Mapping[str, int]) -> float:
    """Of the tests that can apply; 0 where none was run."""
    ran = counts.get(PASSED, 0) + counts.get(FAILED, 0)
    return counts.get(PASSED, 0) / ran if ran else 0.0


def write_results(file: Path, suite: Suite, outcomes: Outcomes, today: date) -> None:
    """Put a suite's row in the place of its last one."""
    known = json.loads(file.read_text()) if file.exists() else {}
    counts = Counter(outcome.result for outcome in outcomes.values())
    known[suite.name] = {
        "version": suite.version,
        "brokers": suite.needs.brokers,
        "commit": commit(),
        "date": today.isoformat(),
        **{result: counts[result] for result in (PASSED, FAILED, SKIPPED)},
        "not_passed": {
            test: outcome._asdict()
            for test, outcome in sorted(outcomes.items())
            if outcome.result != PASSED
        },
    }
    file.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def warnings(file: Path, today: date) -> list[str]:
    """A line for each suite whose row is older than `AGE_MAX`."""
    return [
        f"tests/foreign/results.json: the row of {name} is of {run['date']} (commit "
        f"{run['commit']}), older than {AGE_MAX.days} days: run ./build.sh test foreign, then "
        "./build.sh docs"
        for name, run in json.loads(file.read_text()).items()
        if today - date.fromisoformat(run["date"]) > AGE_MAX
    ]


def lines(file: Path = FILE) -> Iterator[str]:
    """The table, in Markdown."""
    runs = json.loads(file.read_text())
    yield "| suite | brokers | passed | failed | skipped | of those that apply | measured |"
    yield "|---|---|---|---|---|---|---|"
    for name, run in runs.items():
        counts = " | ".join(str(run[result]) for result in (PASSED, FAILED, SKIPPED))
        measured = f"{run['date']}, commit {run['commit']}"
        share = f"{share_passed(run):.0%}"
        yield f"| {name} {run['version']} | {run['brokers']} | {counts} | {share} | {measured} |"
    yield ""
    yield "Not passed, and why:"
    yield ""
    yield "| suite | tests | result | reason |"
    yield "|---|---|---|---|"
    for name, run in runs.items():
        for (result, reason), tests in _by_reason(run["not_passed"]).items():
            named = ", ".join(f"`{test}`" for test in tests)
            yield f"| {name} | {named} | {result} | {_cell(reason)} |"


def _by_reason(not_passed: Mapping[str, Mapping[str, Any]]) -> dict[Outcome, list[str]]:
    found: dict[Outcome, list[str]] = {}
    for test, outcome in not_passed.items():
        found.setdefault(Outcome(**outcome), []).append(test)
    return dict(sorted(found.items()))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for warning in warnings(FILE, date.today()):
        print(f"warning: {warning}", file=sys.stderr)
