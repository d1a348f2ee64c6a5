"""The command `josefine pipeline init FILE`: a pipeline's file to begin with.

Without --topic it is the commented example. With it the schema is that of the topic's newest
records, which are read and stay as they are. Exit codes: 0 success, 1 failure, 2 usage.
"""

from __future__ import annotations

from pathlib import Path

import typer

from josefine_cli.base.errors import UsageError


def add_to(app: typer.Typer) -> None:
    """Register the verb before the existing ones."""
    app.command()(init)


def init(
    file: Path = typer.Argument(help="The file to write.", show_default=False),
    force: bool = typer.Option(False, "--force", help="Write over a file that is there."),
    topic: str | None = typer.Option(
        None, "--topic", help="Read this topic: its schema is inferred from records in JSON."
    ),
    bootstrap: str | None = typer.Option(
        None,
        "--bootstrap",
        "-b",
        envvar="JOSEFINE_BOOTSTRAP",
        help="Brokers of --topic, HOST:PORT,...; default: the local cluster, else 127.0.0.1:9092.",
    ),
) -> None:
    """Write a file to begin with: a commented example, or one that reads a topic.

    \b
    josefine pipeline init example.yaml
    josefine pipeline init orders.yaml --topic orders
    """
    if file.exists() and not force:
        raise UsageError(f"{file} is there already: --force writes over it")
    if topic is None:
        from pipelines.config.example import EXAMPLE

        text, found = EXAMPLE.read_text(encoding="utf-8"), ""
    else:
        # The other verbs for files load no client of the brokers: lint has to be quick.
        from josefine_cli.cluster.target import bootstrap_of
        from josefine_cli.pipeline.init_from_topic import text_of

        text, found = text_of(topic, bootstrap_of(bootstrap))
    file.write_text(text, encoding="utf-8")
    print(f"{file}: written{found}; next: josefine pipeline lint {file}")
