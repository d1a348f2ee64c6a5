"""`josefine quotas`: quotas of clients, by user, by client id, or by both (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from josefine_broker.base.quotas import CONSUMER, DEFAULT, KEYS, PRODUCER, REQUEST, QuotaEntity
from josefine_broker.client import quota_admin
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import agree, connect, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of

app = typer.Typer(
    help="List, set and remove quotas of clients.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

User = Annotated[str | None, typer.Option("--user", "-u", help="Of this user.")]
ClientId = Annotated[str | None, typer.Option("--client-id", help="Of clients with this id.")]
DefaultUser = Annotated[
    bool, typer.Option("--default-user", help="Of each user without a quota of its own.")
]
DefaultClientId = Annotated[
    bool, typer.Option("--default-client-id", help="Of each client id without a quota of its own.")
]


@app.command("list")
def list_quotas(bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """List quotas: bytes per second of producers and consumers, and percent of a broker's thread.

    \b
    josefine quotas list
    """
    with connect(bootstrap_of(bootstrap)) as client:
        found = client.run(quota_admin.describe_quotas)
    if as_json:
        print_json([_plain(entity, bounds) for entity, bounds in found.items()])
    elif not found:
        print("no quotas")
    else:
        rows = [
            (
                _shown(entity.user),
                _shown(entity.client_id),
                *(_figure(bounds.get(key)) for key in KEYS),
            )
            for entity, bounds in found.items()
        ]
        print_table(("user", "client id", *(each.replace("_", " ") for each in KEYS)), rows)


@app.command("set")
def set_quota(
    user: User = None,
    client_id: ClientId = None,
    default_user: DefaultUser = False,
    default_client_id: DefaultClientId = False,
    producer_byte_rate: Annotated[
        int | None, typer.Option(min=1, help="Bytes a second of produce requests.")
    ] = None,
    consumer_byte_rate: Annotated[
        int | None, typer.Option(min=1, help="Bytes a second of fetch answers.")
    ] = None,
    request_percentage: Annotated[
        float | None, typer.Option(min=0, help="Of a broker's thread; 100 is all of it.")
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Set the named bounds, and leave the others unchanged. Each broker applies them separately.

    \b
    josefine quotas set --user alice --producer-byte-rate 1000000
    josefine quotas set --default-client-id --consumer-byte-rate 5000000
    """
    entity = _entity(user, client_id, default_user=default_user, default_client=default_client_id)
    given = {
        PRODUCER: producer_byte_rate,
        CONSUMER: consumer_byte_rate,
        REQUEST: request_percentage,
    }
    # An absent option leaves its bound unchanged: AlterClientQuotas (KIP-546) alters only the keys
    # that the request has.
    bounds = {key: float(value) for key, value in given.items() if value is not None}
    if not bounds:
        raise UsageError(f"name what to set: {', '.join(map(_option, KEYS))}")
    with connect(bootstrap_of(bootstrap)) as client:
        client.run(lambda s, t, d: quota_admin.alter_quotas(s, entity, bounds, t, d))
    print(f"quota of {entity} set")


@app.command()
def remove(
    user: User = None,
    client_id: ClientId = None,
    default_user: DefaultUser = False,
    default_client_id: DefaultClientId = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove all bounds of a user or client id.

    \b
    josefine quotas remove --user alice
    """
    entity = _entity(user, client_id, default_user=default_user, default_client=default_client_id)
    with connect(bootstrap_of(bootstrap)) as client:
        known = client.run(quota_admin.describe_quotas).get(entity)
        if known is None:
            raise UserError(f"there is no quota of {entity}")
        agree(f"remove the quota of {entity}?", yes, "removing a quota")
        gone = dict.fromkeys(known)
        client.run(lambda s, t, d: quota_admin.alter_quotas(s, entity, gone, t, d))
    print(f"quota of {entity} removed")


def _entity(
    user: str | None, client_id: str | None, *, default_user: bool, default_client: bool
) -> QuotaEntity:
    """Raises UsageError."""
    for name, is_default, option in (
        (user, default_user, "user"),
        (client_id, default_client, "client-id"),
    ):
        if name is not None and is_default:
            raise UsageError(f"--{option} and --default-{option} exclude each other")
        if name == "":
            raise UsageError(f"--{option} is empty")
    found = QuotaEntity(DEFAULT if default_user else user, DEFAULT if default_client else client_id)
    if not found.parts:
        raise UsageError(
            "name the client: --user, --default-user, --client-id, --default-client-id, or a user"
            " and a client id"
        )
    return found


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _shown(name: str | None) -> str:
    return "" if name is None else name or "(default)"


def _figure(value: float | None) -> Any:
    if value is None:
        return ""
    return f"{value:,.15g}"


def _plain(entity: QuotaEntity, bounds: Mapping[str, float]) -> dict[str, Any]:
    """The entity as JSON without absent parts; the name of a default is null."""
    return {**{kind: name or None for kind, name in entity.parts}, "quotas": dict(bounds)}
