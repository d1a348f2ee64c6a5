"""`josefine sql` without brokers: its options and a missing package."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from josefine_cli.main import run

NOWHERE = "127.0.0.1:1"


def test_a_missing_package_is_named_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "duckdb" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)

    assert run(["sql", "select 1", "--bootstrap", NOWHERE]) == 1
    assert capsys.readouterr().err.rstrip("\n") == (
        "error: josefine sql needs more than brokers do: 'duckdb' is not installed: "
        "pip install 'duckdb>=2.0,<3'"
    )


def test_a_statement_without_topics_asks_no_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "values (1)", "--format", "csv", "--bootstrap", NOWHERE]) == 0

    assert capsys.readouterr() == ("col0\n1\n", "")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--limit", "-1"], "--limit"),
        (["--at", "1.5"], "--at 1.5: expected VERSION or TOPIC=VERSION"),
        (["--at", "1"], "--at VERSION is for one topic"),
        (["--at", "t=1"], "--at t=1: the statement does not read this topic"),
        (["--max-tail-bytes", "many"], "--max-tail-bytes many: expected a size such as 256MB"),
        (["--format", "xml"], "--format"),
    ],
)
def test_a_wrong_option_is_one_sentence(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sql", "select 1", *words, "--bootstrap", NOWHERE]) != 0

    read = capsys.readouterr()
    assert what in read.err
    assert read.out == ""
    assert len(read.err.splitlines()) == 1
