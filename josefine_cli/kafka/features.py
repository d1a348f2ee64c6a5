"""`josefine features`: the feature levels of a cluster (KIP-584), which are raised once all brokers
have new code; see docs/how-to/cluster.md, "Upgrading"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from josefine_broker.client import feature_admin
from josefine_broker.client.feature_admin import SAFE_DOWNGRADE, UPGRADE, Feature
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import agree, connect, plural, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of

app = typer.Typer(
    help="List, raise and lower the levels of features.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

LASTING = "josefine.version"
"""A feature whose level can never be lowered."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done.")]


@app.command("list")
def list_features(bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """List features with the cluster's level and the levels that all running brokers support.

    \b
    josefine features list
    """
    with connect(bootstrap_of(bootstrap)) as client:
        found = client.run(feature_admin.describe_features)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    rows = [(each.name, each.level or "-", _understood(each), _note(each)) for each in found]
    print_table(("feature", "level", "understood", ""), rows)


@app.command()
def upgrade(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            help="Default: the highest that all brokers support.", metavar="[NAME=LEVEL...]"
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Raise levels, once every broker has new code. josefine.version cannot be lowered again.

    \b
    josefine features upgrade
    josefine features upgrade group.version=1
    """
    with connect(bootstrap_of(bootstrap)) as client:
        known = {each.name: each for each in client.run(feature_admin.describe_features)}
        levels = _levels(wanted, known)
        if not wanted:
            levels = {n: each.highest for n, each in known.items() if each.highest > each.level}
        if not levels:
            print("all features are at the highest level that all brokers support")
            return
        shown = _shown(levels, known)
        # Only a permanent change asks; --dry-run changes nothing and must work without a terminal.
        if LASTING in levels and not dry_run:
            agree(f"{shown}: {LASTING} cannot be lowered again; continue?", yes, "raising it")
        client.run(
            lambda s, t, d: feature_admin.update_features(
                s, levels, UPGRADE, t, d, only_ask=dry_run
            )
        )
    print(f"{shown}{': would be done' if dry_run else ''}")


@app.command()
def downgrade(
    wanted: Annotated[list[str], typer.Argument(metavar="NAME=LEVEL...")],
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Lower levels that concern clients: group.version, transaction.version.

    \b
    josefine features downgrade group.version=0
    """
    with connect(bootstrap_of(bootstrap)) as client:
        known = {each.name: each for each in client.run(feature_admin.describe_features)}
        levels = _levels(wanted, known)
        client.run(
            lambda s, t, d: feature_admin.update_features(
                s, levels, SAFE_DOWNGRADE, t, d, only_ask=dry_run
            )
        )
    print(f"{_shown(levels, known)}{': would be done' if dry_run else ''}")


def _levels(wanted: Sequence[str] | None, known: Mapping[str, Feature]) -> dict[str, int]:
    """Raises UsageError."""
    levels: dict[str, int] = {}
    for pair in wanted or ():
        name, _, level = pair.partition("=")
        if name not in known:
            raise UsageError(f"no feature '{name}': there are {', '.join(known)}")
        if not level.isdecimal():
            raise UsageError(f"'{pair}' is not NAME=LEVEL")
        levels[name] = int(level)
    return levels


def _shown(levels: Mapping[str, int], known: Mapping[str, Feature]) -> str:
    return ", ".join(f"{name} {known[name].level} -> {to}" for name, to in levels.items())


def _understood(feature: Feature) -> str:
    if feature.lowest > feature.highest:
        return "no level by all"
    return f"{feature.lowest} to {feature.highest}"


def _note(feature: Feature) -> str:
    raisable = feature.highest - feature.level
    return f"{plural(raisable, 'level')} to raise" if raisable > 0 else ""
