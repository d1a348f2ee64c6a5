"""`josefine completion`: the lines that let a shell complete this command."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from josefine_cli.base.errors import COMPLETE

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Shell(StrEnum):
    """Those that can."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="Whose lines.")]) -> None:
    """Print what makes a shell complete verbs and options.

    Example: eval "$(josefine completion bash)"
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="josefine", complete_var=COMPLETE, shell=shell.value))
