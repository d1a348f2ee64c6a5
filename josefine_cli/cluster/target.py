"""The target cluster of a command: its options, and their precedence.

An address on the command line wins; then one of the environment, then the profile's, then a local
cluster of `josefine cluster up`, then the default address of a single broker. A named folder of a
local cluster is on the command line, too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.config_admin import admin_address
from josefine_cli.base.admin import DEFAULT_ADMIN
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import BOOTSTRAP_HELP, DEFAULT_BOOTSTRAP, JSON_HELP, connect
from josefine_cli.base.profiles import BOOTSTRAP, profile_admin, profile_bootstrap
from josefine_cli.cluster.local import DEFAULT_DIRECTORY, LocalCluster, no_cluster

Directory = Annotated[
    Path, typer.Option("--directory", "-d", help="Where 'up' keeps a local cluster.")
]
Admin = Annotated[
    str | None,
    typer.Option(
        help="Health address of any broker; default: that of the brokers in use.", metavar="URL"
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar=BOOTSTRAP,
        help=f"{BOOTSTRAP_HELP} Default: those of the profile, else of the local cluster in "
        f"{DEFAULT_DIRECTORY}, if there is one, else {DEFAULT_BOOTSTRAP}.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
BrokerId = Annotated[int, typer.Argument(help="The broker's number.", metavar="BROKER")]


def admin_urls(admin: str | None, directory: Path, bootstrap: str | None = None) -> list[str]:
    """The admin addresses for HTTP requests, best first. Raises UsageError."""
    if admin is not None:
        return [admin if "://" in admin else f"http://{admin}"]
    if directory == DEFAULT_DIRECTORY and (found := _admin_in_use(bootstrap)):
        return [found]
    cluster = local_cluster(directory)
    return [DEFAULT_ADMIN] if cluster is None else cluster.admin_urls


def _admin_in_use(bootstrap: str | None) -> str | None:
    """The admin address of the brokers that the command line, the environment or the profile
    names, which these brokers know; None: they name none, or do not answer."""
    if bootstrap is None and (url := profile_admin(os.environ)):
        return url
    where = bootstrap or profile_bootstrap(os.environ)
    if where is None:
        return None
    try:
        with connect(where) as client:
            return client.run(admin_address)
    except (KafkaError, OSError):
        return None


def bootstrap_of(bootstrap: str | None, directory: Path = DEFAULT_DIRECTORY) -> str:
    """The bootstrap addresses for a Kafka client. Raises UsageError."""
    if bootstrap:
        return bootstrap
    if directory == DEFAULT_DIRECTORY and (of_profile := profile_bootstrap(os.environ)):
        return of_profile
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
