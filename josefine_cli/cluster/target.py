"""The target cluster of a command: its options, and their precedence.

An address on the command line wins; then a local cluster of `josefine cluster up`; then the
default address of a single broker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from josefine_cli.base.admin import DEFAULT_ADMIN
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import BOOTSTRAP_HELP, DEFAULT_BOOTSTRAP, JSON_HELP
from josefine_cli.cluster.local import DEFAULT_DIRECTORY, LocalCluster, no_cluster

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
        help=f"{BOOTSTRAP_HELP} Default: those of the local cluster in {DEFAULT_DIRECTORY}, if "
        f"there is one, else {DEFAULT_BOOTSTRAP}.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
BrokerId = Annotated[int, typer.Argument(help="The broker's number.", metavar="BROKER")]


def admin_urls(admin: str | None, directory: Path) -> list[str]:
    """The admin addresses for HTTP requests, best first. Raises UsageError."""
    if admin is not None:
        return [admin if "://" in admin else f"http://{admin}"]
    cluster = local_cluster(directory)
    return [DEFAULT_ADMIN] if cluster is None else cluster.admin_urls


def bootstrap_of(bootstrap: str | None, directory: Path = DEFAULT_DIRECTORY) -> str:
    """The bootstrap addresses for a Kafka client. Raises UsageError."""
    if bootstrap is not None:
        return bootstrap
    cluster = local_cluster(directory)
    return DEFAULT_BOOTSTRAP if cluster is None else cluster.bootstrap


def local_cluster(directory: Path) -> LocalCluster | None:
    """The local cluster in that directory; None if it was not asked for. Raises UsageError."""
    if LocalCluster.exists(directory):
        cluster = LocalCluster.load(directory)
        if not cluster.brokers:
            raise UsageError(
                f"no broker is left of the cluster in {directory}: name one of another cluster"
                " with --admin or --bootstrap"
            )
        return cluster
    if directory != DEFAULT_DIRECTORY:
        raise no_cluster(directory)
    return None
