"""`josefine doctor`: the check of this machine and a configuration, with remedies."""

from __future__ import annotations

import os
import resource
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from josefine_cli.base.errors import EXIT_FAILURE
from josefine_cli.base.output import JSON_HELP, print_json

if TYPE_CHECKING:
    from josefine_broker.config.broker_config import BrokerConfig
    from josefine_cli.broker.doctor_checks import Facts

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SYNCS = 5


@app.command()
def doctor(
    config: Annotated[
        Path | None,
        typer.Option(help="The broker's configuration; without it the defaults.", metavar="FILE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Check this machine and a configuration for a broker, and report what to fix.

    Exit code 1 if a broker would not start. Example: josefine doctor --config broker.yaml
    """
    from josefine_broker.config.broker_config import load_config
    from josefine_cli.broker.doctor_checks import diagnose

    loaded = load_config(config, os.environ)
    findings = diagnose(_facts(loaded), loaded)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for each in findings:
            print(each)
    if any(each.level == "error" for each in findings):
        raise typer.Exit(EXIT_FAILURE)


def _facts(config: BrokerConfig) -> Facts:
    from josefine_cli.broker.doctor_checks import Facts
    from josefine_cli.broker.security_files import look_at_files

    directory = config.broker.data_dir
    there = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    trouble, sync_ms = _write(there)
    stat = os.statvfs(there)
    files_trouble, files_warnings = look_at_files(config, os.environ, time.time_ns() // 1_000_000)
    return Facts(
        python=sys.version_info[:2],
        optimized=not __debug__,
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        data_dir_trouble=trouble,
        free_bytes=stat.f_bavail * stat.f_frsize,
        file_system=_file_system(there),
        sync_ms=sync_ms,
        taken=tuple(_taken(config)),
        files_trouble=files_trouble,
        files_warnings=files_warnings,
    )


def _write(directory: Path) -> tuple[str, float | None]:
    """(why it is not writable, milliseconds of a sync there)."""
    if not directory.is_dir():
        return f"{directory} is not a directory", None
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            times = []
            for _ in range(SYNCS):
                file.write(b"x")
                file.flush()
                began_s = time.perf_counter()
                os.fsync(file.fileno())
                times.append(time.perf_counter() - began_s)
    except OSError as error:
        return (error.strerror or str(error)).lower(), None
    return "", 1_000 * sorted(times)[SYNCS // 2]


def _file_system(directory: Path) -> str:
    """The type of the file system at the longest mount point; empty if unknown."""
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return ""
    path, best, kind = str(directory.resolve()), "", ""
    for line in mounts:
        point, type_ = line.split(" ")[1:3]
        if len(point) >= len(best) and (path + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, type_
    return kind


def _taken(config: BrokerConfig) -> list[str]:
    from josefine_broker.host.net.server import BindError, bind

    wanted = [(each.name, each.host, each.port) for each in config.broker.listeners]
    wanted.append(("raft", *config.raft.listener))
    if config.admin.address is not None:
        wanted.append(("admin", *config.admin.address))
    if config.text.port is not None:
        wanted.append(("text", config.text.host, config.text.port))
    found = []
    bound: list[socket.socket] = []
    for name, host, port in wanted:
        try:
            bound.append(bind(name, host, port).socket)
        except BindError as error:
            found.append(str(error))
    for each in bound:
        each.close()
    return found
