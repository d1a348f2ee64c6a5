"""`josefine log`: the inspection of a stopped broker's files, without changing them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from josefine_cli.base.errors import EXIT_FAILURE, UserError
from josefine_cli.base.output import JSON_HELP, plural, print_json
from josefine_cli.base.waiting import waits

app = typer.Typer(
    help="Inspect a stopped broker's files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def log() -> None:
    """Inspect a stopped broker's files."""


@app.command()
def verify(
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="The broker's data directory.", metavar="DIRECTORY")
    ] = Path("data/broker-1"),
    topic: Annotated[str | None, typer.Option(help="Only this topic's partitions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Verify every byte of the partition logs against its checksums; changes nothing.

    \b
    josefine log verify --data-dir data
    josefine log verify --data-dir data --topic orders
    """
    from josefine_broker.host.disk.data_dir import DataDirError, DataDirLock

    directories = _partition_directories(data_dir, topic)
    # A running broker appends to the last segment and deletes old ones: verified at the same
    # time, a half written batch would look like damage.
    try:
        lock = DataDirLock(data_dir)
    except DataDirError as error:
        raise UserError(f"{error}; stop it first") from error
    try:
        results: dict[str, dict[str, object]] = {}
        total = len(directories)
        with waits(lambda: f"{total - len(results)} of {plural(total, 'partition')} to be read"):
            for name in directories:
                results[name] = _verify(data_dir, name)
    finally:
        lock.release()
    if as_json:
        print_json(results)
    else:
        for name, result in results.items():
            _say(name, result)
    if any(result["problems"] for result in results.values()):
        raise typer.Exit(EXIT_FAILURE)


def _partition_directories(data_dir: Path, topic: str | None) -> list[str]:
    if not data_dir.is_dir():
        what = "is not a directory" if data_dir.exists() else "does not exist"
        raise UserError(f"data directory {data_dir} {what}")
    names = sorted({path.parent.name for path in data_dir.glob("*/partition*.json")})
    if topic is not None:
        names = [name for name in names if name.rpartition("-")[0] == topic]
    if not names:
        what = f"partition of topic '{topic}'" if topic else "partition"
        raise UserError(f"{data_dir} has no {what}")
    return names


def _verify(data_dir: Path, name: str) -> dict[str, object]:
    from josefine_broker.engine.metadata.log_config import LogConfig
    from josefine_broker.host.disk.files import RealFiles
    from josefine_broker.host.log.verify import verify_directory

    return asdict(verify_directory(RealFiles(data_dir), name, LogConfig()))


def _say(name: str, result: dict[str, object]) -> None:
    problems = result["problems"]
    assert isinstance(problems, tuple)
    segments, batches = int(str(result["segments"])), int(str(result["batches"]))
    verdict = plural(len(problems), "problem") if problems else "ok"
    print(
        f"{name}: {plural(segments, 'segment')}, {plural(batches, 'record batch', 'es')}, {verdict}"
    )
    for problem in problems:
        print(f"  {problem['file']} from byte {problem['position']}: {problem['reason']}")
