"""docs/reference/cli.md: every command with its arguments and options, from the commands."""

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from josefine_cli.verbs import VERBS, app
from tests.pages.markdown import cell, table

EXAMPLE = re.compile(r"\s*(Example: )?(josefine|echo|seq|cat|printf) ")
"""How a paragraph of a help starts that has commands."""


def page() -> str:
    """The whole page."""
    return "\n".join(lines()) + "\n"


def lines() -> Iterator[str]:
    """A section for each verb, a subsection for each of its commands."""
    yield from (
        "# Command line",
        "",
        "Every command, from the same definitions as its own `--help`. Written by",
        "`./build.sh docs`. Results go to stdout, notices and errors to stderr;",
        "[exit codes and messages](errors.md) are a page of their own.",
        "",
    )
    root: Any = typer.main.get_command(app)
    context = root.make_context("josefine", [], resilient_parsing=True)
    yield from table(
        ("verb", "meaning"),
        ((f"[`{name}`](#josefine-{name})", cell(help_)) for name, (_, help_) in VERBS.items()),
    )
    yield from ("", "Options of `josefine` itself, before the verb:", "", *options(root))
    for name in VERBS:
        yield from command(root.get_command(context, name), f"josefine {name}", context, 2)


def command(it: Any, path: str, parent: Any, level: int) -> Iterator[str]:
    """One command, then those below it."""
    context = it.make_context(path.split()[-1], [], parent=parent, resilient_parsing=True)
    yield from ("", f"{'#' * level} `{path}`", "", *prose(it.help or ""))
    if hasattr(it, "list_commands"):
        for name in it.list_commands(context):
            below = it.get_command(context, name)
            yield from command(below, f"{path} {name}", context, min(level + 1, 4))
        return
    arguments = [each for each in it.params if each.param_type_name == "argument"]
    usage = " ".join([path, "[OPTIONS]", *(each.make_metavar(context) for each in arguments)])
    yield from ("", "```", usage, "```")
    found = list(options(it))
    if found:
        yield from ("", *found)


def options(it: Any) -> Iterator[str]:
    """The table of options, and of arguments that have a help."""
    shown = [each for each in it.params if getattr(each, "help", None) and not _hidden(each)]
    if shown:
        rows = ((_names(each), cell(each.help), _default(each)) for each in shown)
        yield from table(("option", "meaning", "default"), rows)


def prose(text: str) -> Iterator[str]:
    """The help of a command; lines that are commands become a block of code."""
    paragraphs = [each.replace("\b\n", "") for each in text.replace("\f", "").split("\n\n")]
    for at, paragraph in enumerate(each.strip("\n") for each in paragraphs):
        if at:
            yield ""
        if EXAMPLE.match(paragraph):
            examples = (re.sub(r"^\s*(Example: )?", "", line) for line in _lines(paragraph))
            yield from ("```", *examples, "```")
        else:
            yield from (line.strip().replace("<", "&lt;") for line in _lines(paragraph))


def _lines(paragraph: str) -> list[str]:
    return paragraph.splitlines()


def _hidden(option: Any) -> bool:
    return bool(getattr(option, "hidden", False)) or "--help" in option.opts


def _names(option: Any) -> str:
    if option.param_type_name == "argument":
        return f"`{option.human_readable_name}`"
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    metavar = "" if getattr(option, "is_flag", False) else f" {cell(option.metavar or '')}"
    return names + metavar.rstrip()


def _default(option: Any) -> str:
    default = option.default
    if default in (None, False, "") or callable(default) or repr(default).startswith("Sentinel"):
        return ""
    if isinstance(default, list | tuple):
        return ", ".join(f"`{each}`" for each in default)
    return f"`{getattr(default, 'value', default)}`"
