"""`josefine config`: judge a broker's configuration without a start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from josefine_cli.output import JSON_HELP, print_json

app = typer.Typer(
    help="Check and show a broker's configuration without a start.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(help="YAML or TOML.", metavar="FILE")]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


@app.command()
def check(file: File, as_json: AsJson = False) -> None:
    """Say whether a broker would take this file, the environment's JOSEFINE__* applied.

    Example: josefine config check conf/broker.yaml
    """
    from josefine_broker.config import load_config

    loaded = load_config(file, os.environ)
    if as_json:
        print_json({"file": str(file), "ok": True, "broker_id": loaded.broker.id})
    else:
        print(f"{file}: ok, broker {loaded.broker.id}")


@app.command()
def show(file: File, as_json: AsJson = False) -> None:
    """Print every key with its value in effect, defaults among them. Secrets are places.

    \b
    josefine config show conf/broker.yaml
    """
    from josefine_broker.config import load_config

    values = load_config(file, os.environ).model_dump(mode="json")
    if as_json:
        print_json(values)
        return
    for section, keys in values.items():
        for key, value in keys.items():
            print(f"{section}.{key}: {value}")
