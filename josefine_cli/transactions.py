"""`josefine transactions`: list and describe transactional ids, find transactions that hang, and
end one of those.

One that its coordinator knows is never ended here: it has a timeout, and its producer may live.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from josefine_broker.base.durations import duration_ms
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import transaction_admin
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.transaction_admin import OpenTransaction, TransactionDescription
from josefine_cli.cluster_where import AsJson, Bootstrap, bootstrap_of
from josefine_cli.errors import UsageError, UserError
from josefine_cli.output import connect, iso_time, plural, print_json, print_table

app = typer.Typer(
    help="List and describe transactions, find those that hang, end one of those.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", help="Only there; default: everywhere.")
]

_COLUMNS = ("transactional id", "state", "producer", "coordinator")
_HANGING = ("topic", "partition", "producer", "epoch", "since offset", "last written")


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="Only those in this state, like Ongoing; repeatable."),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than", metavar="DURATION", help="Only what runs for longer, like 5m."
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List the transactional ids of all brokers.

    \b
    josefine transactions list --state Ongoing --longer-than 5m
    """
    least_ms = -1 if longer_than is None else _duration(longer_than)
    with connect(bootstrap_of(bootstrap)) as client:
        found = client.run(
            lambda s, t, d: transaction_admin.list_transactions(s, state or (), least_ms, t, d)
        )
    if as_json:
        names = ("transactional_id", "state", "producer_id", "coordinator")
        print_json([{name: getattr(each, name) for name in names} for each in found])
    elif not found:
        print("no transactional ids")
    else:
        rows = [(e.transactional_id, e.state, e.producer_id, e.coordinator) for e in found]
        print_table(_COLUMNS, rows)


@app.command()
def describe(
    ids: Annotated[list[str], typer.Argument(help="One or more transactional ids.")],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show what transactional ids are doing, and where.

    \b
    josefine transactions describe payments-1
    """
    with connect(bootstrap_of(bootstrap)) as client:
        found = [_describe(client, each) for each in ids]
    if as_json:
        told = [_as_json(each) for each in found]
        print_json(told[0] if len(told) == 1 else told)
        return
    for each in found:
        since = f", begun {iso_time(each.started_ms)}" if each.started_ms >= 0 else ""
        print(
            f"{each.transactional_id}: {each.state}{since}, timeout {each.timeout_ms} ms, producer "
            f"{each.producer_id} epoch {each.producer_epoch}, coordinator {each.coordinator}"
        )
        if each.partitions:
            print_table(("topic", "partition"), each.partitions)


@app.command("find-hanging")
def find_hanging(topic: Topic = None, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Find transactions that no coordinator will end, and that hold readers back.

    \b
    josefine transactions find-hanging --topic orders
    """
    with connect(bootstrap_of(bootstrap)) as client:
        found = _hanging(client, topic)
    if as_json:
        print_json([_hanging_as_json(each) for each in found])
    elif not found:
        print("no transaction hangs")
    else:
        print_table(
            _HANGING,
            [
                (*e.tp, e.producer_id, e.producer_epoch, e.first_offset, iso_time(e.last_ms))
                for e in found
            ],
        )


@app.command()
def abort(
    topic: Annotated[str, typer.Option("--topic", "-t", help="Where it hangs.")],
    partition: Annotated[int, typer.Option("--partition", "-p", help="Where it hangs.", min=0)],
    start_offset: Annotated[
        int, typer.Option("--start-offset", help="Since where, as find-hanging says.", min=0)
    ],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """End a transaction that hangs: what it wrote there counts as aborted.

    \b
    josefine transactions abort --topic orders --partition 0 --start-offset 4711
    """
    tp = TopicPartition(topic, partition)
    with connect(bootstrap_of(bootstrap)) as client:
        hanging = [each for each in _hanging(client, topic) if each.tp == tp]
        found = next((each for each in hanging if each.first_offset == start_offset), None)
        if found is None:
            since = ", ".join(str(each.first_offset) for each in hanging)
            where = f"one does since {since}" if hanging else "none does in that partition"
            raise UserError(f"no transaction hangs in {tp} since offset {start_offset}: {where}")
        client.run(lambda s, t, d: transaction_admin.abort_transaction(s, found, t, d))
    if as_json:
        print_json({"aborted": [_hanging_as_json(found)]})
    else:
        print(f"aborted {plural(1, 'transaction')} of producer {found.producer_id} in {tp}")


def _duration(text: str) -> int:
    found = duration_ms(text)
    if found is None:
        raise UsageError(f"--longer-than '{text}' is not like 30s, 5m or 2h")
    return found


def _describe(client: BlockingClient, transactional_id: str) -> TransactionDescription:
    return client.run(
        lambda s, t, d: transaction_admin.describe_transaction(s, transactional_id, t, d)
    )


def _hanging(client: BlockingClient, topic: str | None) -> list[OpenTransaction]:
    topics = None if topic is None else (topic,)
    return client.run(lambda s, t, d: transaction_admin.hanging_transactions(s, topics, t, d))


def _as_json(told: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": told.transactional_id,
        "state": told.state,
        "producer_id": told.producer_id,
        "producer_epoch": told.producer_epoch,
        "timeout_ms": told.timeout_ms,
        "started_ms": told.started_ms if told.started_ms >= 0 else None,
        "coordinator": told.coordinator,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in told.partitions],
    }


def _hanging_as_json(found: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": found.tp.topic,
        "partition": found.tp.partition,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "start_offset": found.first_offset,
        "last_ms": found.last_ms,
    }
