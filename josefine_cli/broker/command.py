"""`josefine broker`: run one broker in the foreground."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.base.extras import need
from josefine_cli.broker.with_tables import table_writer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def broker(
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration, YAML or TOML; every key has a default.", metavar="FILE"),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Overrides broker.data_dir.", metavar="DIRECTORY")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Overrides broker.listeners: one listener; port 0 is any free port.",
            metavar="HOST:PORT",
        ),
    ] = None,
    with_tables: Annotated[
        bool,
        typer.Option(
            "--with-tables",
            envvar="JOSEFINE_WITH_TABLES",
            help="Also run the table writer, as a process next to the broker.",
        ),
    ] = False,
) -> None:
    """Run one broker in the foreground; SIGTERM or Ctrl-C stops it gracefully.

    \b
    josefine broker --data-dir data --listen 127.0.0.1:9092
    josefine broker --config conf/broker.yaml
    """
    from josefine_broker.config.broker_config import load_config
    from josefine_broker.main import run

    loaded = load_config(config, os.environ, _overrides(data_dir, listen))
    if not with_tables:
        run(loaded)
        return
    # Before the broker serves: a topic with a table must not wait for a writer that cannot start.
    need("the table writer", "josefine_lake", "deltalake", "pyarrow", "numpy")
    with table_writer(loaded.broker.data_dir):
        run(loaded)


def _overrides(data_dir: Path | None, listen: str | None) -> dict[str, object]:
    overrides: dict[str, object] = {}
    if data_dir is not None:
        if data_dir.is_file():
            raise UsageError(f"--data-dir {data_dir} is a file, not a directory")
        overrides["broker.data_dir"] = str(data_dir)
    if listen is not None:
        overrides["broker.listeners"] = [f"PLAINTEXT://{listen}"]
    return overrides
