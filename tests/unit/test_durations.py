"""Tests that take too long are named, listed ones are not, and the table shows the longest."""

import json
from pathlib import Path

import pytest

from tests.durations import CI_LIMIT_S, LIMIT_S, LONG, Recorder, read_record, rows_of, too_long

LONG_ONE = "tests/unit/test_a.py::test_long"
SECONDS = {
    LONG_ONE: {"setup": 1.0, "call": LIMIT_S + 1},
    "tests/unit/test_b.py::test_b": {"call": LIMIT_S - 1},
}


def test_test_that_is_too_long_and_not_listed_is_named() -> None:
    (line,) = too_long(SECONDS, {})

    assert line.startswith(f"{LONG_ONE}: call took 61 s")
    assert too_long(SECONDS, {"tests/unit/test_a.py": "it waits for a real minute"}) == []


def test_table_has_the_longest_units_and_tests_on_top() -> None:
    rows = rows_of(SECONDS, 1)

    assert rows[2].split() == ["62.0", "s", "tests/unit/test_a.py"]
    assert rows[-1].split() == ["1.0", "61.0", LONG_ONE]


def report(nodeid: str, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid, ("", 0, ""), {}, "passed", None, "call", duration=seconds, start=0, stop=seconds
    )


class Session:
    exitstatus: object = pytest.ExitCode.OK


@pytest.mark.parametrize("is_daily", [True, False])
def test_daily_run_with_a_test_that_is_too_long_fails(tmp_path: Path, *, is_daily: bool) -> None:
    path = tmp_path / "durations.json"
    path.write_text(json.dumps({"tests/unit/test_before.py::test_c": {"call": 2.0}}))
    recorder, session = Recorder(is_daily=is_daily, path=path), Session()

    recorder.pytest_runtest_logreport(report(LONG_ONE, LIMIT_S + 1))
    recorder.pytest_sessionfinish(session)  # type: ignore[arg-type]

    assert session.exitstatus == (pytest.ExitCode.TESTS_FAILED if is_daily else pytest.ExitCode.OK)
    assert sorted(read_record(path)) == [LONG_ONE, "tests/unit/test_before.py::test_c"]


def test_slow_machine_fails_at_its_own_limit_only(tmp_path: Path) -> None:
    path = tmp_path / "durations.json"
    recorder, session = Recorder(is_daily=True, fails_at_s=CI_LIMIT_S, path=path), Session()

    recorder.pytest_runtest_logreport(report(LONG_ONE, CI_LIMIT_S - 1))
    recorder.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert session.exitstatus == pytest.ExitCode.OK

    recorder.pytest_runtest_logreport(report(LONG_ONE, CI_LIMIT_S + 1))
    recorder.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED


def test_damaged_record_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "durations.json").write_text("{")

    assert read_record(tmp_path / "durations.json") == {}


def test_listed_tests_are_there_and_have_a_reason() -> None:
    root = Path(__file__).resolve().parents[2]
    for start, reason in LONG.items():
        assert (root / start.partition("::")[0]).exists(), start
        assert reason
