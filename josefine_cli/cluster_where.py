"""Which cluster a command means: the options that say it, and their order.

An address on the command line wins; then a local cluster of `josefine cluster up`; then the
default address of a single broker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from josefine_cli.cluster_local import LocalCluster
from josefine_cli.errors import UsageError
from josefine_cli.output import BOOTSTRAP_HELP, DEFAULT_BOOTSTRAP, JSON_HELP

DEFAULT_DIRECTORY = Path("data/cluster")
DEFAULT_ADMIN = "http://127.0.0.1:9644"

Directory = Annotated[
    Path, typer.Option("--directory", "-d", help="Where 'up' keeps a local cluster.")
]
Admin = Annotated[
    str | None,
    typer.Option(help="Health address of any broker; default: a local cluster's.", metavar="URL"),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="JOSEFINE_BOOTSTRAP",
        help=f"{BOOTSTRAP_HELP} Default: a local cluster's.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
BrokerId = Annotated[int, typer.Argument(help="The broker's number.", metavar="BROKER")]


def admin_urls(admin: str | None, directory: Path) -> list[str]:
    """Whom to ask over HTTP, best first. Raises UsageError."""
    if admin is not None:
        return [admin if "://" in admin else f"http://{admin}"]
    cluster = local_cluster(directory)
    return [DEFAULT_ADMIN] if cluster is None else cluster.admin_urls


def bootstrap_of(bootstrap: str | None, directory: Path) -> str:
    """Whom to ask as a Kafka client. Raises UsageError."""
    if bootstrap is not None:
        return bootstrap
    cluster = local_cluster(directory)
    return DEFAULT_BOOTSTRAP if cluster is None else cluster.bootstrap


def local_cluster(directory: Path) -> LocalCluster | None:
    """The local cluster there, None where nobody named one. Raises UsageError."""
    if LocalCluster.exists(directory):
        return LocalCluster.load(directory)
    if directory != DEFAULT_DIRECTORY:
        raise UsageError(f"no cluster in {directory}: 'josefine cluster up' makes one")
    return None
