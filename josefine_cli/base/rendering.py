"""The rendering of results: a command hands over data, and `--output` decides what it looks like.

Every command with `--json` takes `--output table|json|yaml` as well. A table is for people, and the
command's own; JSON and YAML are of the same data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Annotated, Any

import typer
import typer.main


class Output(StrEnum):
    """The values of --output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


_YAML_DOCUMENTS: ContextVar[list[int] | None] = ContextVar("yaml_documents", default=None)
"""How many documents were printed; None: results are JSON."""


def render(value: Any, *, sort_keys: bool = False) -> None:
    """Print one value to stdout: one line of JSON, or a YAML document. Lone surrogates, which UTF-8
    lacks, are escaped. `sort_keys`: also in ASCII alone, one text for one value."""
    documents = _YAML_DOCUMENTS.get()
    if documents is None:
        text = json.dumps(value, ensure_ascii=sort_keys, sort_keys=sort_keys)
    else:
        text = _yaml(value, is_first=documents[0] == 0, sort_keys=sort_keys)
        documents[0] += 1
    print(text.encode("utf-8", "backslashreplace").decode())


def _yaml(value: Any, *, is_first: bool, sort_keys: bool) -> str:
    import yaml

    plain = json.loads(json.dumps(value))  # tuples, enums and names that are numbers, as in JSON
    # A value of many columns stays in one line: a wrapped text is hard to search.
    text = yaml.safe_dump(plain, sort_keys=sort_keys, allow_unicode=True, width=10_000)
    text = text.removesuffix("\n").removesuffix("\n...")
    return text if is_first else f"---\n{text}"


@contextmanager
def rendered_as(output: str | None) -> Iterator[None]:
    """Inside the block `render` prints this format; None: JSON."""
    token = _YAML_DOCUMENTS.set([0] if output == Output.YAML else None)
    try:
        yield
    finally:
        _YAML_DOCUMENTS.reset(token)


def add_output(command: Any) -> None:
    """Add `--output` to a command that has `--json`, and to each command of a group.

    Commands are `Any`, as in `verbs`.
    """
    for each in getattr(command, "commands", {}).values():
        add_output(each)
    flag = next((each for each in command.params if "--json" in each.opts), None)
    if flag is None:
        return
    if any("--output" in each.opts for each in command.params):
        return
    command.params.append(_option())
    command.callback = _choosing(command.callback, flag.name)


def _choosing(callback: Callable[..., Any], flag: str) -> Callable[..., Any]:
    """The callback of a command, where `--output` is in place of its flag for JSON."""

    def run(*arguments: Any, output: str | None = None, **options: Any) -> Any:
        if output is not None:
            options[flag] = output != Output.TABLE
        with rendered_as(output):
            return callback(*arguments, **options)

    return run


def _option() -> Any:
    """The option as typer makes it, whichever click it has."""

    def template(
        output: Annotated[
            Output | None,
            typer.Option("--output", "-o", help="Print a table, or the same data as JSON or YAML."),
        ] = None,
    ) -> None:
        """Only its option is used."""

    made = typer.Typer(add_completion=False)
    made.command()(template)
    return typer.main.get_command(made).params[0]
