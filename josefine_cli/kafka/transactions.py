"""`josefine transactions`: list and describe transactional ids, find transactions that hang, and
end one by hand.

Rules: one that its coordinator knows has a timeout, and its producer may live: it is ended through
its coordinator, which fences that producer, and after a question. What is committed is what was
shown: a transaction that came in between is left alone.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from josefine_broker.base.durations import duration_ms
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import config_admin, transaction_admin
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.operations import Outcome
from josefine_broker.client.transaction_admin import OpenTransaction, TransactionDescription
from josefine_broker.client.transactions import Kept, end_transactions, keep_open, take_ids
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import agree, connect, iso_time, plural, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of

app = typer.Typer(
    help="List and describe transactions, find those that hang, end one by hand.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", help="Only there; default: everywhere.")
]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
TransactionalId = Annotated[str, typer.Argument(help="The transactional id.")]

NEXT_TIMEOUT_MS = 60_000
"""Of transactions of an id that was taken only to abort; its next producer says its own."""
TIMEOUT_MAX = "transaction.max.timeout.ms"
"""Of a broker's configs; one of before does not tell it, and then the question alone guards."""
OPEN = "Ongoing"
DECIDED = ("PrepareCommit", "PrepareAbort")
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
    transactional_id: Annotated[
        str | None, typer.Argument(help="The transactional id; or the options, where one hangs.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Where one hangs, that nobody knows.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Where it hangs.", min=0)
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", help="Since where, as find-hanging says.", min=0)
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """End a transaction: what it wrote counts as aborted. Of a transactional id everywhere, and its
    producer is fenced; of one that hangs in the partition where it does.

    \b
    josefine transactions abort payments-1
    josefine transactions abort --topic orders --partition 0 --start-offset 4711
    """
    where = (topic, partition, start_offset)
    if transactional_id is not None and where == (None, None, None):
        _abort_id(bootstrap_of(bootstrap), transactional_id, yes, as_json)
        return
    if transactional_id is not None or topic is None or partition is None or start_offset is None:
        raise UsageError(
            "give a transactional id, or --topic, --partition and --start-offset of one that hangs"
        )
    tp = TopicPartition(topic, partition)
    with connect(bootstrap_of(bootstrap)) as client:
        hanging = [each for each in _hanging(client, topic) if each.tp == tp]
        found = next((each for each in hanging if each.first_offset == start_offset), None)
        if found is None:
            since = ", ".join(str(each.first_offset) for each in hanging)
            told = f"one does since {since}" if hanging else "none does in that partition"
            raise UserError(f"no transaction hangs in {tp} since offset {start_offset}: {told}")
        client.run(lambda s, t, d: transaction_admin.abort_transaction(s, found, t, d))
    if as_json:
        print_json({"aborted": [_hanging_as_json(found)]})
    else:
        print(f"aborted {plural(1, 'transaction')} of producer {found.producer_id} in {tp}")


@app.command()
def commit(
    transactional_id: TransactionalId,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Commit what a participant of a two-phase commit has prepared, where all others have and it
    does not come back to do it itself. It is fenced. Of another producer nobody knows whether it
    wrote all that it wanted to: its transactions are not committed here.

    \b
    josefine transactions commit payments-1
    """
    with connect(bootstrap_of(bootstrap)) as client:
        told = _open(client, transactional_id)
        _check_participant(client, told)
        agree(
            f"Commit {_what(told)}, as it was written so far? Only who decided the two-phase "
            "commit knows that it was prepared and is to count.",
            yes,
            "committing",
        )
        kept = _keep(client, transactional_id)
        if kept.wrote != ProducerIdentity(told.producer_id, told.producer_epoch):
            now = "nothing is open" if kept.wrote is None else "another one is open"
            raise UserError(
                f"{_what(told)} is over, {now}: nothing was committed. Look again: "
                f"josefine transactions describe {transactional_id}"
            )
        ends = {transactional_id: kept.ends}
        outcomes = client.run(lambda s, t, d: end_transactions(s, ends, True, t, d))
        _raise(outcomes[transactional_id])
    _tell("committed", told, as_json)


def _abort_id(bootstrap: str, transactional_id: str, yes: bool, as_json: bool) -> None:
    """As Kafka's tools would by forceTerminateTransaction (KIP-939): who takes an id over has what
    was open aborted."""
    with connect(bootstrap) as client:
        told = _open(client, transactional_id)
        agree(f"Abort {_what(told)}, and fence who wrote it?", yes, "aborting")
        ids = (transactional_id,)
        outcomes = client.run(lambda s, t, d: take_ids(s, ids, NEXT_TIMEOUT_MS, t, d))
        _raise(outcomes[transactional_id])
    _tell("aborted", told, as_json)


def _open(client: BlockingClient, transactional_id: str) -> TransactionDescription:
    """Raises UserError where there is nothing that could be decided."""
    told = _describe(client, transactional_id)
    if told.state == OPEN:
        return told
    if told.state in DECIDED:
        raise UserError(
            f"transactional id '{transactional_id}': {told.state}, it is decided, and ends when "
            "its markers are written"
        )
    raise UserError(f"transactional id '{transactional_id}': {told.state}, nothing is open")


def _check_participant(client: BlockingClient, told: TransactionDescription) -> None:
    """Raises UserError for a transaction that was never to be prepared: a participant's alone may
    be open for longer than its coordinator lets any other producer ask for (KIP-939)."""
    kind, name = config_admin.RESOURCE_BROKER, str(told.coordinator)
    configs = client.run(lambda s, t, d: config_admin.describe_resource(s, kind, name, t, d))
    longest = next((each.value for each in configs if each.name == TIMEOUT_MAX), None)
    if told.timeout_ms <= int(longest or 0):
        raise UserError(
            f"{_what(told)} is none of a two-phase commit (its timeout of {told.timeout_ms} ms is "
            "one that any producer may ask for): only its producer knows whether all of it is "
            f"written. It is aborted in time, or now: josefine transactions abort "
            f"{told.transactional_id}"
        )


def _what(told: TransactionDescription) -> str:
    count = plural(len(told.partitions), "partition")
    return (
        f"the transaction of '{told.transactional_id}' (producer {told.producer_id} epoch "
        f"{told.producer_epoch}, {count}, open since {iso_time(told.started_ms)})"
    )


def _keep(client: BlockingClient, transactional_id: str) -> Kept:
    try:
        return client.run(lambda s, t, d: keep_open(s, transactional_id, t, d))
    except KafkaError as error:
        if error.code is not ErrorCode.transactional_id_authorization_failed:
            raise
        raise UserError(
            f"transactional id '{transactional_id}': nobody but its producer may commit: the "
            "broker serves no two-phase commits (transactions.two_phase_commit_enable), or you "
            "may not write under that id"
        ) from error


def _raise(outcome: Outcome) -> None:
    if outcome.error is not None:
        raise outcome.error


def _tell(done: str, told: TransactionDescription, as_json: bool) -> None:
    if as_json:
        print_json({done: _as_json(told)})
    else:
        print(f"{done} {_what(told)}")


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
