"""`josefine log`: verification of a broker's files, running or stopped, and their repair."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from josefine_cli.base.admin import DEFAULT_ADMIN
from josefine_cli.base.errors import EXIT_FAILURE, UsageError, UserError
from josefine_cli.base.output import JSON_HELP, plural, print_json
from josefine_cli.base.waiting import waits

app = typer.Typer(
    help="Verify a broker's logs against their checksums, and repair them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def log() -> None:
    """Verify a broker's logs against their checksums, and repair them."""


@app.command()
def verify(
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="The broker's data directory.", metavar="DIRECTORY")
    ] = Path("data/broker-1"),
    topic: Annotated[str | None, typer.Option(help="Only this topic's partitions.")] = None,
    admin: Annotated[
        str | None, typer.Option(help="Health address of a running broker.", metavar="URL")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Verify every byte of the partition logs against its checksums. Of a stopped broker nothing is
    changed; a running one repairs damage from the other replicas.

    \b
    josefine log verify --data-dir data
    josefine log verify --data-dir data --topic orders
    josefine log verify --admin http://127.0.0.1:9644
    """
    if admin is not None:
        from josefine_cli.broker.log_running import show, verify_running

        view = verify_running(admin, topic)
        show(view, as_json=as_json)
        if view["damaged"]:
            raise typer.Exit(EXIT_FAILURE)
        return
    from josefine_broker.host.disk.data_dir import DataDirError, DataDirLock

    directories = _partition_directories(data_dir, topic)
    # A running broker appends to the last segment and deletes old ones: verified at the same
    # time, a half written batch would look like damage.
    try:
        lock = DataDirLock(data_dir)
    except DataDirError as error:
        raise UserError(f"{error}; stop it first, or verify it with --admin URL") from error
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


@app.command()
def repair(
    partition: Annotated[
        str | None, typer.Argument(help="Only this one.", metavar="[PARTITION]")
    ] = None,
    admin: Annotated[
        str, typer.Option(help="Health address of the running broker.", metavar="URL")
    ] = DEFAULT_ADMIN,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Give up the records that no replica has; at the leader."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Verify a running broker's logs and wait until damage is repaired from the other replicas.

    \b
    josefine log repair
    josefine log repair orders-0 --accept-loss
    """
    from josefine_cli.broker.log_running import repair_running, show

    if accept_loss and partition is None:
        raise UsageError("--accept-loss needs a partition, such as orders-0")
    # The broker would look for a topic without a name.
    if partition is not None and not re.fullmatch(r".+-\d+", partition):
        raise UsageError(f"'{partition}' is not a partition: expected TOPIC-NUMBER, as in orders-0")
    view = repair_running(admin, partition, accepts_loss=accept_loss)
    show(view, as_json=as_json)
    if view["damaged"]:
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
