"""The help of every verb has examples, and each is a command line that the verb takes."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from josefine_cli.verbs import VERBS


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """(words, command) of all that can be typed below a verb."""
    if hasattr(command, "commands"):
        for word, below in command.commands.items():
            if not below.hidden:
                yield from leaves(f"{name} {word}", below)
    else:
        yield name, command


def all_leaves() -> dict[str, Any]:
    found = {}
    for verb, (module, _) in VERBS.items():
        command = typer.main.get_command(importlib.import_module(module).app)
        found |= dict(leaves(verb, command))
    return found


LEAVES = all_leaves()


def examples(name: str) -> list[str]:
    """The lines of its help, or their parts in a pipe, that are typed so."""
    lines = (LEAVES[name].help or "").splitlines()
    ours = [re.search(rf"\bjosefine {name}\b[^|>)]*", line) for line in lines]
    return [each[0] for each in ours if each]


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_help_has_an_example_that_its_verb_takes(name: str) -> None:
    assert examples(name), f"`josefine {name} --help` shows no example"
    for example in examples(name):
        words = shlex.split(example, comments=True)
        arguments = words[words.index(name.split()[0]) + len(name.split()) :]

        LEAVES[name].make_context(name, arguments)
