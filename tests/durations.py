"""How long tests take: recorded at each run, shown by `./build.sh test --slowest`, and bounded.

A run writes the seconds of each test's set-up and call to `.cache/test_durations.json`; what was
run before and not again keeps its figure. One phase of one test may take `LIMIT_S` seconds, or be
on the list `LONG` with a reason: a test that grows past it fails the run of who wrote it. Seconds
are wall-clock time beside the other processes of that run, and the machine of the CI is at times
half as fast: there a test fails at `CI_LIMIT_S`, and past `LIMIT_S` it is reported.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.sharing import UNIT_SECONDS_FILE, unit_of

__all__ = ["CI_LIMIT_S", "LIMIT_S", "LONG", "Recorder", "rows_of", "too_long"]

RECORD = Path(__file__).resolve().parents[1] / ".cache/test_durations.json"
LIMIT_S = 60.0
CI_LIMIT_S = 120.0
_RUNS = "many runs of a pipeline, one after another: up to 140 s on a busy machine"
_PIPELINES = "tests/spark/pipelines/"
LONG: Mapping[str, str] = {
    "tests/integration/test_journal_store.py::test_killed_at_every_place_every_event": (
        "a process is killed at each place, one after another"
    ),
    "tests/simulation/cluster/test_mutants.py::test_a_broken_rule_is_caught[a leader epoch ends": (
        "no short history shows it"
    ),
    **dict.fromkeys(
        (
            _PIPELINES
            + "test_checks.py::test_rows_are_counted_left_out_and_lettered_once_whatever_is_killed",
            _PIPELINES
            + "test_dead_letters.py::test_the_letters_table_has_a_commit_for_batches_with_letters",
            _PIPELINES + "test_deduplicate.py::test_kills_and_a_lost_checkpoint_bring_no_copy_in",
            _PIPELINES
            + "test_exactly_once.py::test_a_lost_checkpoint_neither_repeats_nor_loses_a_row",
            _PIPELINES + "test_join_letters.py::test_bad_records_of_both_sides_are_letters_once",
            _PIPELINES
            + "test_joins.py::test_pairs_and_rows_without_one_are_there_once_whatever_dies",
            _PIPELINES
            + "test_failing_records.py::test_each_kind_of_error_makes_a_dead_letter_of_its_record",
            _PIPELINES + "test_kill.py",
            _PIPELINES + "test_kill_cells.py::test_a_run_that_dies_in_some_cells_leaves_its_sink",
            _PIPELINES + "test_local_sources.py::test_a_rate_goes_on_where_the_table_ends",
            _PIPELINES + "test_losses.py::test_lost_records_stop_the_run_and_are_recorded_once",
            _PIPELINES + "test_object_store_kills.py",
            _PIPELINES + "test_replay.py::test_letters_come_in_once_after_a_fix_whatever_is_killed",
            _PIPELINES + "test_scd2.py::test_a_history_that_dies_and_loses_its_checkpoint",
            _PIPELINES + "test_stopping.py::test_a_stop_request_ends_a_run_between_batches",
            _PIPELINES
            + "test_upsert.py::test_the_latest_row_is_the_same_whatever_batches_the_rows_come_in",
            _PIPELINES
            + "test_unreadable_batches.py::test_an_unreadable_batch_is_a_dead_letter_with",
            _PIPELINES + "test_windows.py::test_closed_windows_are_there_once_with_all_their_rows",
        ),
        _RUNS,
    ),
}
"""The start of a test's id → why it takes longer."""
NOTED_S = 0.05
"""What takes less is not recorded: most tests, and nothing of the time."""
UNIT_NOTED_S = 2.0

Seconds = Mapping[str, Mapping[str, float]]
"""A test's id → phase → seconds."""


def too_long(
    seconds: Seconds, long: Mapping[str, str] = LONG, *, limit_s: float = LIMIT_S
) -> list[str]:
    """A line for each phase of a test that takes longer than it may."""
    return [
        f"{nodeid}: {phase} took {took:.0f} s, {limit_s:.0f} s are allowed: make it shorter, share "
        "its set-up, mark it slow with a share left here, or name it in tests/durations.py::LONG"
        for nodeid, phases in sorted(seconds.items())
        for phase, took in phases.items()
        if took > limit_s and not nodeid.startswith(tuple(long))
    ]


def rows_of(seconds: Seconds, most: int) -> list[str]:
    """The table: units of work first, then single tests, the longest on top."""
    units = unit_seconds(seconds)
    total = sum(units.values())
    tests = sorted(seconds.items(), key=lambda each: -sum(each[1].values()))
    return [
        f"{total:8.0f} s  all that is recorded, {len(seconds)} tests over {NOTED_S} s",
        "",
        *(f"{took:8.1f} s  {unit}" for unit, took in units.most_common(most)),
        "",
        f"{'set-up':>8} {'call':>8}",
        *(
            f"{phases.get('setup', 0):8.1f} {phases.get('call', 0):8.1f}  {nodeid}"
            for nodeid, phases in tests[:most]
        ),
    ]


def unit_seconds(seconds: Seconds) -> Counter[str]:
    """Of each unit (`tests/sharing.py`), all its tests together."""
    units: Counter[str] = Counter()
    for nodeid, phases in seconds.items():
        units[unit_of(nodeid)] += sum(phases.values())  # type: ignore[assignment]
    return units


def read_record(path: Path = RECORD) -> dict[str, dict[str, float]]:
    """Empty where nothing was recorded, or the record is damaged: the next run makes it anew."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Recorder:
    """The pytest plugin. In the process that collects the reports."""

    def __init__(self, *, is_daily: bool, fails_at_s: float = LIMIT_S, path: Path = RECORD) -> None:
        """`is_daily`: the run has the tests of every day, whose length is bounded."""
        self._is_daily = is_daily
        self._fails_at_s = fails_at_s
        self._path = path
        self._seconds: dict[str, dict[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.duration >= NOTED_S:
            phases = self._seconds.setdefault(report.nodeid, {})
            phases[report.when] = round(report.duration, 2)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._seconds:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(read_record(self._path) | self._seconds, indent=0))
        if self._over(self._fails_at_s) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        failing = self._over(self._fails_at_s)
        for line in failing:
            terminalreporter.write_line(f"FAILED, too long: {line}", red=True)
        if not failing:
            for line in self._over(LIMIT_S):
                terminalreporter.write_line(f"too long: {line}", yellow=True)

    def _over(self, limit_s: float) -> list[str]:
        return too_long(self._seconds, limit_s=limit_s) if self._is_daily else []


def main(arguments: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(prog="./build.sh test --slowest", description=__doc__)
    parser.add_argument("most", nargs="?", type=int, default=40, help="rows (default: 40)")
    parser.add_argument(
        "--write-units",
        action="store_true",
        help="write what each unit takes to tests/unit_seconds.json, by which they are started",
    )
    asked = parser.parse_args(list(arguments))
    seconds = read_record()
    if not seconds:
        print("nothing is recorded yet: run ./build.sh test first", file=sys.stderr)
        return 1
    if asked.write_units:
        units = {
            unit: round(took) for unit, took in unit_seconds(seconds).items() if took > UNIT_NOTED_S
        }
        UNIT_SECONDS_FILE.write_text(json.dumps(units, indent=1, sort_keys=True) + "\n")
    print("\n".join(rows_of(seconds, asked.most)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
