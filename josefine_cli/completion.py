"""`josefine completion`: the completion script for a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from josefine_cli.base.errors import COMPLETE

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Shell(StrEnum):
    """The supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the script with which a shell completes verbs and options.

    Example: eval "$(josefine completion bash)"
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="josefine", complete_var=COMPLETE, shell=shell.value))
