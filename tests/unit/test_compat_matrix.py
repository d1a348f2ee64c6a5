"""The table of clients says when it was measured, and warns when that is too long ago."""

import json
from datetime import date
from pathlib import Path

from tests.compat.matrix import AGE_MAX, FILE, OURS, warnings, write_matrix

TODAY = date(2026, 11, 27)


def test_table_says_on_which_commit_and_day_it_was_measured(tmp_path: Path) -> None:
    file = tmp_path / "matrix.json"

    write_matrix(file, OURS, {"test_b.py::test_b": "passed", "test_a.py::test_a": "skipped"}, TODAY)

    run = json.loads(file.read_text())[OURS]
    assert run["date"] == "2026-11-27"
    assert run["commit"]
    assert list(run["outcomes"]) == ["test_a.py::test_a", "test_b.py::test_b"]


def test_table_older_than_a_month_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "matrix.json"
    write_matrix(file, OURS, {}, TODAY)

    assert warnings(file, TODAY + AGE_MAX) == []
    (warning,) = warnings(file, TODAY + AGE_MAX + (date(2026, 1, 2) - date(2026, 1, 1)))
    assert "./build.sh test compat --all" in warning


def test_tables_that_are_committed_name_their_commits() -> None:
    runs = json.loads(FILE.read_text())

    assert {broker: bool(run["commit"] and run["date"]) for broker, run in runs.items()} == (
        dict.fromkeys(runs, True)
    )
