"""`josefine groups`: list and describe consumer groups with their lag, move their offsets, delete
them.

A reset of offsets is a dry run unless `--execute` is given. A group with members is refused,
because they would continue at their own positions and overwrite the new offsets.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import group_admin, share_admin
from josefine_broker.client.group_admin import TEXT
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.share_admin import SHARE, ShareOffset
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import agree, connect, note, plural, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.kafka import groups_top
from josefine_cli.kafka.completed import group_names
from josefine_cli.kafka.group_description import (
    described_by,
    description_of,
    listed_at,
    share_starts,
)
from josefine_cli.kafka.group_offsets import (
    Move,
    Shift,
    TableEnd,
    Target,
    moves,
    parse_topic,
    partitions_of,
)
from josefine_cli.kafka.offset_spec import FORMS, parse_place

app = typer.Typer(
    help="List and describe consumer groups, move their offsets, delete them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Group = Annotated[str, typer.Argument(help="The group.", autocompletion=group_names)]
Groups = Annotated[
    list[str], typer.Argument(help="One or more groups.", autocompletion=group_names)
]

_PARTITION_COLUMNS = ("topic", "partition", "committed", "end", "lag", "owner")
_TYPES = ("classic", "consumer", SHARE, TEXT)
_TYPES_TEXT = f"{', '.join(_TYPES[:-1])} or {_TYPES[-1]}"
_MEMBER_COLUMNS = ("member", "client", "host", "partitions")


@app.command("list")
def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="Only groups in this state, like Stable; repeatable."),
    ] = None,
    group_type: Annotated[
        list[str] | None,
        typer.Option("--type", help=f"Only groups of this type: {_TYPES_TEXT}; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List the groups of all brokers.

    \b
    josefine groups list --state Stable --json
    josefine groups list --type consumer
    josefine groups list --type share
    """
    types = [_parse_type(each) for each in group_type or ()]
    with connect(bootstrap_of(bootstrap)) as client:
        found = client.run(lambda s, t, d: group_admin.list_groups(s, state or (), t, d, types))
    # JSON has what brokers send, empty texts included; "-" is for the eye only.
    if as_json:
        print_json(
            [
                {
                    "group": each.group,
                    "state": each.state,
                    "protocol_type": each.protocol_type,
                    "type": each.group_type,
                    "coordinator": each.coordinator,
                }
                for each in found
            ]
        )
    elif not found:
        print("no groups")
    else:
        rows = [
            (g.group, g.group_type or "-", g.state, g.protocol_type or "-", str(g.coordinator))
            for g in found
        ]
        print_table(("group", "type", "state", "protocol", "coordinator"), rows)


@app.command()
def describe(
    groups: Annotated[
        list[str] | None,
        typer.Argument(help="Groups. Default: all of --type.", autocompletion=group_names),
    ] = None,
    group_type: Annotated[
        str | None, typer.Option("--type", help=f"All groups of this type: {_TYPES_TEXT}.")
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show members, offsets and lag of groups, and who owns what.

    The offset of a share group is where it starts: all records before it are finished.

    \b
    josefine groups describe readers
    josefine groups describe readers --json | jq .lag
    josefine groups describe --type share
    """
    if bool(groups) == (group_type is not None):
        raise UsageError("which groups? Name one or more, or give --type")
    with connect(bootstrap_of(bootstrap)) as client:
        # Brokers before ListGroups 5 send no types: none of their groups is found by one.
        if group_type is not None:
            types = [_parse_type(group_type)]
            found = client.run(lambda s, t, d: group_admin.list_groups(s, (), t, d, types))
            groups = [each.group for each in found]
        described = [description_of(client, group) for group in groups or ()]
    if as_json:
        print_json(described[0] if group_type is None and len(described) == 1 else described)
        return
    if not described:
        print(f"no groups of type {group_type}")
    for each in described:
        how = f", by {each['assignor']}" if each["assignor"] else ""
        kind = "share group" if each["protocol_type"] == SHARE else "consumer protocol"
        how += "" if each["epoch"] is None else f", {kind} in epoch {each['epoch']}"
        print(
            f"{each['group']}: {each['state']}{how}, {plural(len(each['members']), 'member')}, "
            f"coordinator {each['coordinator']}, lag {each['lag']:,}"
        )
        if each["partitions"]:
            print_table(_PARTITION_COLUMNS, [_partition_row(p) for p in each["partitions"]])
        if each["members"]:
            print_table(_MEMBER_COLUMNS, [_member_row(m) for m in each["members"]])


groups_top.add_to(app)


@app.command("reset-offsets")
def reset_offsets(
    group: Group,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:0,2]", help="What to move; repeatable."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every topic that the group has committed in.")
    ] = False,
    to: Annotated[str | None, typer.Option("--to", help=f"Where: {FORMS}.")] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", metavar="N", help="Forward by N records, back by -N."),
    ] = None,
    to_table: Annotated[
        Path | None,
        typer.Option("--to-table", metavar="FOLDER", help="Where a pipeline's Delta table ends."),
    ] = None,
    group_type: Annotated[
        str | None, typer.Option("--type", help="share: make a new group a share group.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without it only the plan is shown.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Move the committed offsets of a group without members, or the start of a share group; shows
    them first.

    \b
    josefine groups reset-offsets readers --topic orders --to earliest
    josefine groups reset-offsets readers --topic orders:0,2 --to 2026-01-01T00:00Z --execute
    josefine groups reset-offsets readers --all-topics --shift-by -100 --execute
    josefine groups reset-offsets readers --topic orders --to-table lake/orders --execute
    josefine groups reset-offsets workers --type share --topic orders --to earliest --execute
    """
    is_new_share = group_type is not None and _parse_type(group_type) == SHARE
    target = _target(to, shift_by, to_table)
    chosen = [parse_topic(each) for each in topic or ()]
    if bool(chosen) == all_topics:
        raise UsageError("which offsets? Give --topic or --all-topics, and not both")
    with connect(bootstrap_of(bootstrap)) as client:
        is_share = _is_share(client, group, is_new_share)
        planned = plan_reset(
            client, group, target, None if all_topics else chosen, is_share=is_share
        )
        # The coordinator refuses the commit if a member has joined since the check above.
        if execute and is_share:
            starts = {move.tp: move.to for move in planned}
            client.run(lambda s, t, d: share_admin.alter_share_offsets(s, group, starts, t, d))
        elif execute:
            commit_moves(client, group, planned)
    _tell_moves(group, planned, execute, as_json)


@app.command("delete-offsets")
def delete_offsets(
    group: Group,
    topic: Annotated[list[str], typer.Option("--topic", "-t", help="A topic; repeatable.")],
    bootstrap: Bootstrap = None,
) -> None:
    """Forget topics of a share group without members: it starts there as in new topics.

    \b
    josefine groups delete-offsets workers --topic orders
    """
    with connect(bootstrap_of(bootstrap)) as client:
        if not _is_share(client, group, is_new_share=False):
            raise UserError(
                f"group '{group}' is not a share group: move its offsets with"
                " 'josefine groups reset-offsets', or delete the group"
            )
        client.run(lambda s, t, d: share_admin.delete_share_offsets(s, group, topic, t, d))
    print(f"{group} has no offsets in {', '.join(topic)} any more")


@app.command()
def delete(
    groups: Groups,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed when a group is not there.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups without members, and all their committed offsets.

    \b
    josefine groups delete readers --yes
    """
    agree(f"Delete {', '.join(groups)} and all offsets?", yes, "deleting")
    deleted: list[str] = []
    with connect(bootstrap_of(bootstrap)) as client:
        for group in groups:
            try:
                _delete(client, group)
                deleted.append(group)
            except KafkaError as error:
                if error.code is not ErrorCode.group_id_not_found or not if_exists:
                    if deleted:
                        _tell_deleted(deleted, as_json)
                    raise
    _tell_deleted(deleted, as_json)


def _parse_type(text: str) -> str:
    """Raises UsageError."""
    if text.lower() not in _TYPES:
        raise UsageError(f"--type is {_TYPES_TEXT}, not '{text}'")
    return text.lower()


def _delete(client: BlockingClient, group: str) -> None:
    client.run(lambda s, t, d: group_admin.delete_group(s, group, t, d))


def _tell_deleted(deleted: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json({"deleted": list(deleted)})
    else:
        print(f"deleted {', '.join(deleted)}" if deleted else "nothing to delete")


def _target(to: str | None, shift_by: int | None, to_table: Path | None) -> Target:
    given = [each for each in (to, shift_by, to_table) if each is not None]
    if len(given) != 1:
        raise UsageError("no target: give one of --to, --shift-by and --to-table")
    if to_table is not None:
        return TableEnd(to_table)
    if shift_by is not None:
        return Shift(shift_by)
    return parse_place(str(to), "--to", time.time_ns() // 1_000_000)


def _is_share(client: BlockingClient, group: str, is_new_share: bool) -> bool:
    """Whether the group is a share group, or is to become one. Raises UserError for one of another
    type that is to become one."""
    described = described_by(client, group)
    if described.state == group_admin.DEAD:
        return is_new_share
    if is_new_share and described.protocol_type != SHARE:
        raise UserError(f"group '{group}' is not a share group: leave --type out")
    return described.protocol_type == SHARE


def plan_reset(
    client: BlockingClient,
    group: str,
    target: Target,
    chosen: Sequence[tuple[str, list[int] | None]] | None,
    *,
    is_share: bool = False,
) -> list[Move]:
    """The moves of a group without members to `target`; nothing is changed. `chosen`: topics with
    partitions, None: every partition that it has committed. Raises UserError."""
    _check_inactive(client, group)
    if is_share:
        committed = {tp: each.start for tp, each in _starts(client, group).items()}
    else:
        committed = client.run(lambda s, t, d: group_admin.all_committed(s, group, t, d))
    tps = sorted(committed) if chosen is None else partitions_of(client, chosen)
    if not tps:
        raise UserError(f"group '{group}' has committed nothing: name topics with --topic")
    earliest, latest = (listed_at(client, tps, at) for at in (EARLIEST, LATEST))
    return moves(client, target, committed, earliest, latest)


def _starts(client: BlockingClient, group: str) -> dict[TopicPartition, ShareOffset]:
    """None for a group that does not exist yet."""
    if described_by(client, group).state == group_admin.DEAD:
        return {}
    return share_starts(client, group)


def _check_inactive(client: BlockingClient, group: str) -> None:
    """Raises UserError for a group with members. A new group can be given offsets, as in Kafka."""
    described = described_by(client, group)
    if described.is_active:
        raise UserError(
            f"group '{group}' is {described.state} with {plural(len(described.members), 'member')}:"
            " stop them before its offsets are moved"
        )


def commit_moves(client: BlockingClient, group: str, planned: Iterable[Move]) -> None:
    """Commit a plan. Raises UserError if the group has members by now."""
    try:
        client.commit_offsets(group, {move.tp: move.to for move in planned})
    except KafkaError as error:
        if error.code is ErrorCode.unknown_member_id:
            raise UserError(f"group '{group}' has members again: nothing was changed") from error
        raise


def _tell_moves(group: str, planned: Sequence[Move], executed: bool, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "topic": move.tp.topic,
                "partition": move.tp.partition,
                "committed": move.committed,
                "to": move.to,
                "note": move.note or None,
            }
            for move in planned
        ]
        print_json({"group": group, "executed": executed, "partitions": rows})
        return
    columns = ("topic", "partition", "committed", "to", "lag then", "")
    print_table(
        columns,
        [
            (*m.tp, "-" if m.committed is None else m.committed, m.to, m.latest - m.to, m.note)
            for m in planned
        ],
    )
    if executed:
        print(f"moved {plural(len(planned), 'offset')} of {group}")
    else:
        note("nothing is changed yet: run it with --execute")


def _partition_row(partition: dict[str, Any]) -> tuple[Any, ...]:
    cells = (partition[name] for name in _PARTITION_COLUMNS)
    return tuple("-" if cell is None else cell for cell in cells)


def _member_row(member: dict[str, Any]) -> tuple[Any, ...]:
    owned = ", ".join(f"{p['topic']}-{p['partition']}" for p in member["partitions"])
    return member["member"], member["client"], member["host"], owned or "-"
