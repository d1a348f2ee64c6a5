"""`josefine pipeline lint`: exit codes and output; the other verbs need Spark."""

from __future__ import annotations

import json

import pytest

from josefine_cli.main import run

BAD = "version: 1\nname: x\nsurces: {}\n"


def test_lint_of_a_good_file_says_so_and_returns_0(capsys):
    assert run(["pipeline", "lint", "conf/pipelines/flights.yaml"]) == 0

    out = capsys.readouterr().out
    assert out == "conf/pipelines/flights.yaml: good (1 source, 1 transform, 2 sinks)\n"


def test_lint_of_a_bad_file_lists_every_problem_and_returns_78(tmp_path, capsys):
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)

    assert run(["pipeline", "lint", str(file)]) == 78

    said = capsys.readouterr()
    assert said.out == ""
    assert f"{file}:3:1: surces: unknown key `surces`; did you mean `sources`?" in said.err
    assert f"{file}:1:1: `sinks` is missing" in said.err
    assert "Traceback" not in said.err


def test_lint_for_scripts_puts_problems_on_stdout_as_one_line_of_json(tmp_path, capsys):
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)

    assert run(["pipeline", "lint", str(file), "--json"]) == 78

    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is False
    assert {(p["line"], p["column"], p["path"]) for p in result["problems"]} >= {(3, 1, "surces")}


@pytest.mark.parametrize(
    "arguments",
    [
        ["pipeline", "run"],
        ["pipeline", "run", "f.yaml", "--trust", "both"],
        ["pipeline", "run", "f.yaml", "--trust", "neither"],
    ],
)
def test_a_wrong_command_line_returns_2(arguments):
    assert run(arguments) == 2


def test_a_missing_file_returns_78(capsys):
    assert run(["pipeline", "run", "none.yaml"]) == 78
    assert "none.yaml:1:1: cannot be read: No such file or directory" in capsys.readouterr().err


def test_the_help_offers_two_sides_to_trust_and_no_completion(capsys):
    assert run(["pipeline", "run", "--help"]) == 0
    assert "--trust <table|checkpoint>" in capsys.readouterr().out
    assert run(["pipeline", "--help"]) == 0
    assert "completion" not in capsys.readouterr().out
