"""Every command that a document tells to type is one that there is: verbs, options, modules, files.

Commands are the lines of fenced blocks and the code spans that begin with one of `STARTS`. What an
argument means is not looked at; who changed a command tries it.
"""

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer.main

from josefine_cli.verbs import app
from tests.unit.test_docs import DOCUMENTS, ROOT

STARTS = ("josefine", "./build.sh", ".venv/bin/")
SPAN = re.compile(r"`([^`\n]+)`")
ENDS = frozenset({"|", ">", ";", "&", "&&", "||"})
PATH = re.compile(r"(?:tests|conf|docs)/[\w/.-]+")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_named_in_documents_exist(name: str) -> None:
    text = (ROOT / name).read_text()

    assert [f"{command}: {why}" for command, why in all_wrong(text)] == []


@pytest.mark.parametrize(
    "command",
    [
        "josefine topic list",
        "josefine topics creat orders",
        "josefine cluster up --borkers 3",
        "JOSEFINE_DEBUG=1 josefine nothing",
        "./build.sh tests",
        "./build.sh test units",
        "./build.sh bench brokers",
        ".venv/bin/python -m tests.simulation.run 7",
        ".venv/bin/python -m pytest tests/unit/test_nothing.py",
        "josefine pipeline lint conf/pipelines/nothing.yaml",
    ],
)
def test_a_command_that_is_not_there_is_found(command: str) -> None:
    assert len(list(all_wrong(f"`{command}`"))) == 1
    assert len(list(all_wrong(f"```\n{command}    # why\n```\n"))) == 1
    assert len(list(all_wrong(f'```sh title="here"\n$ {command}\n```\n'))) == 1


def test_documents_with_commands_are_read() -> None:
    found = {name: len(list(commands((ROOT / name).read_text()))) for name in DOCUMENTS}

    many = ("README.md", "CONTRIBUTING.md", "docs/how-to/cluster.md")
    assert min(found[name] for name in many) > 10


def all_wrong(text: str) -> Iterator[tuple[str, str]]:
    for words in commands(text):
        for why in wrong(words):
            yield " ".join(words), why


def commands(text: str) -> Iterator[list[str]]:
    """Each as its words, without what the shell does around it."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    fenced = re.findall(r"^```[^`\n]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in fenced for line in block.splitlines()]
    for line in (*lines, *SPAN.findall(outside)):
        line = re.sub(r"^\$ ", "", line)  # a prompt
        words = re.sub(r"(?<!\S)#.*", "", line).replace('"', "").replace("'", "").split()
        yield from _split(words)


def _split(words: list[str]) -> Iterator[list[str]]:
    while words:
        end = next((at for at, word in enumerate(words) if word in ENDS), len(words))
        command, words = words[:end], words[end + 1 :]
        while command and re.fullmatch(r"[A-Z_]+=\S*", command[0]):
            del command[0]
        if command and command[0].startswith(STARTS):
            command[0] = command[0].removeprefix(".venv/bin/")
            yield command


def wrong(words: list[str]) -> Iterator[str]:
    program, *rest = words
    if program == "josefine":
        yield from _wrong_verb(rest)
    elif program == "./build.sh":
        yield from _wrong_build(*rest)
    elif rest[:1] == ["-m"] and rest[1] != "pytest" and importlib.util.find_spec(rest[1]) is None:
        yield f"no module {rest[1]}"
    for word in rest:
        if PATH.fullmatch(word) and not (ROOT / word).exists():
            yield f"no file {word}"


def _wrong_verb(words: list[str]) -> Iterator[str]:
    command, context = root(), None
    for word in words:
        if word.startswith("-") and not re.match(r"-\d", word):
            known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            if word.partition("=")[0] not in known | {"--help", "-h"}:
                yield f"no option {word}"
        elif hasattr(command, "list_commands"):
            context = command.make_context(word, [], parent=context, resilient_parsing=True)
            found = command.get_command(context, word)
            if found is None:
                yield f"no command {word}"
                return
            command = found


@cache
def root() -> Any:
    return typer.main.get_command(app)


def _wrong_build(verb: str = "", kind: str = "", *_: str) -> Iterator[str]:
    """By the lines of build.sh itself: `verb) …`, and the kinds of `test` in their own case."""
    text = (ROOT / "build.sh").read_text()
    if verb and not re.search(rf"^  {verb}\) ", text, flags=re.MULTILINE):
        yield f"no verb {verb}"
    if kind.startswith("-") or not kind:
        return
    if verb == "test" and not re.search(rf"^    {kind}\) ", text, flags=re.MULTILINE):
        yield f"no tests of kind {kind}"
    if verb == "bench" and not (ROOT / f"tests/bench/{kind}_bench.py").exists():
        yield f"no bench {kind}"
