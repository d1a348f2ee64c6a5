"""The command `josefine pipeline export FILE --sdp DIR`: a Spark declarative pipeline of the file.

It needs no Spark, no broker and no secret. Exit codes: 0 success, 1 no sink can be exported, 2
usage, 78 invalid file.
"""

from __future__ import annotations

import os
from pathlib import Path

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.pipeline.file import ENVIRONMENT, FILE, JSON, print_json
from pipelines.base.errors import ConfigError, RunError


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(export)


def export(
    file: Path = FILE,
    sdp: Path = typer.Option(
        ..., "--sdp", metavar="DIR", help="The folder to write to.", show_default=False
    ),
    environment: str | None = ENVIRONMENT,
    as_json: bool = JSON,
) -> None:
    """Write a Spark declarative pipeline (spark-pipelines), and list what is not in it.

    Spark 4.1 or later runs it.

    \b
    josefine pipeline export orders.yaml --sdp orders_sdp
    """
    from pipelines.base.variables import Variables
    from pipelines.config.validate import examine, read_text
    from pipelines.inspect.sdp import export as exported

    text = read_text(file)
    variables = Variables(env=os.environ, with_secrets=False)
    examined = examine(text, str(file), variables, environment)
    if examined.problems:
        raise ConfigError(examined.problems)
    made = exported(examined.pipeline, has_secrets="${secret:" in text)
    if not made.files:
        raise RunError(f"{file}: no sink of it maps:\n" + "\n".join(made.missing))
    # All are checked before the first is written: a refused export leaves no half of a pipeline.
    for name in made.files:
        if (sdp / name).exists():
            raise UsageError(f"{sdp / name} is there already: delete it, or choose another folder")
    for name, content in made.files.items():
        _write(sdp / name, content)
    if as_json:
        said = {"files": [str(sdp / name) for name in made.files], "sinks": [*made.sinks]}
        print_json({**said, "missing": [*made.missing]})
        return
    print("\n".join(f"{sdp / name}: written" for name in made.files))
    print("not as in a run of the file:")
    print("\n".join(f"  {line}" for line in made.missing))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
