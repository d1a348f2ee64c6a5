"""Standard streams that are closed, and tables on any of them."""

from __future__ import annotations

import subprocess
import sys
from uuid import UUID

import pytest

from josefine_cli.base.output import is_terminal, print_table
from josefine_cli.main import run
from tests.support.cli import COMMAND, environment


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("produce", "t"), "stdin is closed: name an input file"),
        (("produce", "t", "-"), "stdin is closed: name an input file"),
        (("topics", "delete", "t"), "deleting without a terminal to ask on needs --yes"),
    ],
)
def test_closed_stdin_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    assert run(arguments) > 0

    assert capsys.readouterr().err == f"error: {sentence}\n"


def test_chain_and_status_bear_a_closed_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = {"blocks": [], "root": "0:0", "head": "0:0", "commit": "0:0", "applied": "0:0"}
    monkeypatch.setattr("josefine_cli.cluster.command.ask_first", lambda urls, path: blocks)
    monkeypatch.setattr(sys, "stdout", None)

    assert run(("cluster", "chain", "--admin", "h:1")) == 0


def test_none_is_no_terminal() -> None:
    assert not is_terminal(None)


def test_with_all_three_closed_nothing_else_gets_their_numbers() -> None:
    """A socket with the number 2 would be sent what is said on stderr."""
    opens = "import socket; taken = socket.socket().fileno(); os._exit(100 + taken)"
    code = COMMAND[2].replace("main()", f"m._fill_closed_streams(); import os; {opens}")
    code = code.replace("from josefine_cli.main import main", "import josefine_cli.main as m")
    shell = f"exec {sys.executable} -c '{code}' <&- >&- 2>&-"

    done = subprocess.run(["bash", "-c", shell], env=environment(""), timeout=60, check=False)

    assert done.returncode > 100 + 2


def test_a_row_of_a_table_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ("a" * 249, "b c")

    print_table(("topic", "partitions", "id"), [(name, 3, UUID(int=7)) for name in names])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].split() == [names[0], "3", str(UUID(int=7))]
