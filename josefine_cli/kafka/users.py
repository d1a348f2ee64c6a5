"""`josefine users`: users with passwords in the cluster's metadata (KIP-554).

A password is typed without echo, or read from a file or the environment: never an argument, which
every process of the machine can read.
"""

from __future__ import annotations

import os
import secrets
import sys
from typing import Annotated

import typer

from josefine_broker.base.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN
from josefine_broker.base.security import parse_secret_place
from josefine_broker.client import access_admin
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import agree, connect, is_terminal, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of

app = typer.Typer(
    help="List users, set their passwords, remove them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

SALT_BYTES = 32
"""The same size as a broker's own salts, so that the two cannot be distinguished."""

Name = Annotated[str, typer.Argument(help="The user's name.", metavar="USER")]


@app.command("list")
def list_users(bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """List the users in the metadata, without those of a broker's own file sasl.users.

    \b
    josefine users list
    """
    with connect(bootstrap_of(bootstrap)) as client:
        found = client.run(access_admin.describe_users)
    if as_json:
        print_json(found)
    elif not found:
        print("no users")
    else:
        rows = [
            (user, mechanism, iterations)
            for user, mechanisms in found.items()
            for mechanism, iterations in mechanisms.items()
        ]
        print_table(("user", "mechanism", "iterations"), rows)


@app.command("set")
def set_password(
    user: Name,
    password_from: Annotated[
        str | None,
        typer.Option(
            "--password-from",
            metavar="PLACE",
            help="file:PATH or env:NAME; default: ask for it.",
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="Hash iterations: the cost of a guess."
        ),
    ] = ITERATIONS_MIN,
    bootstrap: Bootstrap = None,
) -> None:
    """Set the password of a new or existing user.

    \b
    josefine users set alice
    josefine users set alice --password-from file:alice.password
    """
    password = _password(password_from)
    # The salt is chosen here: the request carries the salted password (KIP-554), so that the plain
    # one never leaves this machine.
    salt = secrets.token_bytes(SALT_BYTES)
    with connect(bootstrap_of(bootstrap)) as client:
        client.run(
            lambda s, t, d: access_admin.set_password(
                s, user, password, tuple(HASHES), salt, iterations, t, d
            )
        )
    print(f"password of user '{user}' set")


@app.command()
def remove(
    user: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove a user's passwords; existing connections and ACLs are kept.

    \b
    josefine users remove alice
    """
    with connect(bootstrap_of(bootstrap)) as client:
        known = client.run(access_admin.describe_users)
        if user not in known:
            raise UserError(f"there is no user '{user}' in the metadata")
        agree(f"remove user '{user}'?", yes, "removing a user")
        client.run(lambda s, t, d: access_admin.remove_user(s, user, tuple(known[user]), t, d))
    print(f"user '{user}' removed")


def _password(place: str | None) -> str:
    """Raises UsageError."""
    if place is None:
        if not is_terminal(sys.stdin):
            raise UsageError("a password without a terminal to ask on needs --password-from")
        password = str(
            typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
        )
    else:
        try:
            password = parse_secret_place(place).read(os.environ)
        except ValueError as error:
            raise UsageError(f"--password-from: {error}") from None
    if not password:
        raise UsageError("the password is empty")
    return password
