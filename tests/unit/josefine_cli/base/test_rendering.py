"""`--output`: one option of every command with results, the same data as JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
import yaml

from josefine_cli.base.errors import EXIT_USAGE
from josefine_cli.base.output import print_table
from josefine_cli.base.rendering import Output, add_output, render, rendered_as
from josefine_cli.main import run
from josefine_cli.verbs import STREAMS_RECORDS, VERBS, app

FILE = "docs/examples/orders.yaml"


def commands() -> Iterator[tuple[str, Any]]:
    group: Any = typer.main.get_command(app)
    waiting = [(name, group.get_command(None, name)) for name in VERBS]
    while waiting:
        name, command = waiting.pop()
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        else:
            waiting += [(f"{name} {each}", found) for each, found in inner.items()]


def test_every_command_with_json_has_the_option_except_those_that_stream_records() -> None:
    for name, command in commands():
        options = [opt for each in command.params for opt in each.opts]
        wanted = "--json" in options and name not in STREAMS_RECORDS
        assert options.count("--output") == wanted, name
        assert len(options) == len(set(options)), name


def test_the_formats_have_the_same_data(capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for output in Output:
        assert run(["pipeline", "lint", FILE, "-o", output]) == 0
        said[output] = capsys.readouterr().out
    assert run(["pipeline", "lint", FILE, "--json"]) == 0

    assert said[Output.JSON] == capsys.readouterr().out
    assert yaml.safe_load(said[Output.YAML]) == json.loads(said[Output.JSON])
    assert said[Output.TABLE].startswith(f"{FILE}: good")


def test_an_unknown_format_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list", "--output", "xml"]) == EXIT_USAGE
    assert "'xml' is not one of 'table', 'json', 'yaml'" in capsys.readouterr().err


def test_several_values_are_documents_and_the_next_command_is_json_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with rendered_as(Output.YAML):
        render({"a": ["é", None, (1, 2)], "t": "x\ny: \ud800"})
        render([])
    render({"a": 1})

    *first, last = capsys.readouterr().out.splitlines()
    assert list(yaml.safe_load_all("\n".join(first))) == [
        {"a": ["é", None, [1, 2]], "t": "x\ny: \ud800"},
        [],
    ]
    assert last == '{"a": 1}'


def test_an_option_is_added_once() -> None:
    command = dict(commands())["topics list"]
    before = len(command.params)
    add_output(command)

    assert len(command.params) == before


def test_a_table_has_colour_on_terminals_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    print_table(("a",), [("x",)])

    assert "\x1b" not in capsys.readouterr().out
