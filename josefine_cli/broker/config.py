"""`josefine config`: the check of a broker's configuration without starting it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from josefine_cli.base.errors import UserError
from josefine_cli.base.output import JSON_HELP, note, print_json

app = typer.Typer(
    help="Check and show a broker's configuration without starting it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(help="YAML or TOML.", metavar="FILE")]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


@app.command()
def check(
    file: File,
    no_files: Annotated[
        bool, typer.Option("--no-files", help="Do not read the certificates, keys and users.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check whether a broker accepts this file, with the environment's JOSEFINE__* applied.

    Also checks the named certificates, keys and users. Warnings about open listeners go to stderr.

    \b
    josefine config check conf/broker.yaml
    josefine config check broker-2.yaml --no-files
    """
    from josefine_broker.config.broker_config import load_config
    from josefine_cli.broker.doctor_exposure import exposures
    from josefine_cli.broker.security_files import look_at_files

    loaded = load_config(file, os.environ)
    warned = tuple(each.what for each in exposures(loaded))
    # Certificates and keys are on the broker's host: --no-files is for a check elsewhere, as in CI.
    if not no_files:
        trouble, of_files = look_at_files(loaded, os.environ, time.time_ns() // 1_000_000)
        if trouble:
            raise UserError(f"{file}: {trouble}")
        warned = (*of_files, *warned)
    if as_json:
        found = {"file": str(file), "ok": True, "broker_id": loaded.broker.id, "warnings": warned}
        print_json(found)
        return
    for each in warned:
        note(f"warning: {each}")
    print(f"{file}: ok, broker {loaded.broker.id}")


@app.command()
def show(file: File, as_json: AsJson = False) -> None:
    """Print every key with its effective value, including defaults; secrets as references.

    \b
    josefine config show conf/broker.yaml
    """
    from josefine_broker.config.broker_config import load_config

    values = load_config(file, os.environ).model_dump(mode="json")
    if as_json:
        print_json(values)
        return
    for section, keys in values.items():
        for key, value in keys.items():
            print(f"{section}.{key}: {value}")
