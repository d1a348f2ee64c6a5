"""`josefine transactions`: list and describe transactional ids, find hanging transactions, and end
one by hand.

Rules: a transaction that its coordinator knows has a timeout, and its producer may be alive: it is
ended through the coordinator, which fences that producer, and after a confirmation. Only the
transaction that was shown is committed: a newer one is left alone.
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
    help="List and describe transactions, find hanging ones, end one by hand.",
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
"""Timeout for an id that is taken over only to abort; its next producer sets its own."""
TIMEOUT_MAX = "transaction.max.timeout.ms"
"""A broker configuration; an older broker does not report it, and then only the confirmation
protects."""
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
            "--longer-than", metavar="DURATION", help="Only those that run for longer, like 5m."
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
    # The coordinators filter by duration (ListTransactions 1, KIP-994): the list has no start time
    # to do it here.
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
    """Show the state of transactional ids, and their partitions.

    \b
    josefine transactions describe payments-1
    """
    with connect(bootstrap_of(bootstrap)) as client:
        found = [_describe(client, each) for each in ids]
    if as_json:
        shown = [_as_json(each) for each in found]
        print_json(shown[0] if len(shown) == 1 else shown)
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
    """Find transactions that no coordinator will end and that block read_committed readers.

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
        str | None, typer.Argument(help="The transactional id; for a hanging one, the options.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Topic of a hanging transaction.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Its partition.", min=0)
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", help="As shown by find-hanging.", min=0)
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Abort a transaction. With a transactional id, in all its partitions, and its producer is
    fenced; a hanging transaction in its one partition.

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
            "give a transactional id, or --topic, --partition and --start-offset of a hanging one"
        )
    tp = TopicPartition(topic, partition)
    with connect(bootstrap_of(bootstrap)) as client:
        # Looked for again, although find-hanging has shown it: a marker (KIP-664) written into a
        # transaction that its coordinator still runs would cut it in two.
        hanging = [each for each in _hanging(client, topic) if each.tp == tp]
        found = next((each for each in hanging if each.first_offset == start_offset), None)
        if found is None:
            since = ", ".join(str(each.first_offset) for each in hanging)
            others = f"one does since {since}" if hanging else "none does in that partition"
            raise UserError(f"no transaction hangs in {tp} since offset {start_offset}: {others}")
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
    """Commit the prepared transaction of a two-phase participant that does not come back, after all
    other participants have committed. The participant is fenced. Transactions of other producers
    are refused: only the producer knows whether all of its records are written.

    \b
    josefine transactions commit payments-1
    """
    with connect(bootstrap_of(bootstrap)) as client:
        txn = _open(client, transactional_id)
        _check_participant(client, txn)
        agree(
            f"Commit {_what(txn)}, as it was written so far? Only the coordinator of the two-phase "
            "commit knows that it was prepared and must be committed.",
            yes,
            "committing",
        )
        # Taking the id over shows which transaction is open now. Between the question and the
        # answer another one may have replaced the one that was shown: that one is not committed.
        kept = _keep(client, transactional_id)
        if kept.wrote != ProducerIdentity(txn.producer_id, txn.producer_epoch):
            now = "nothing is open" if kept.wrote is None else "another one is open"
            raise UserError(
                f"{_what(txn)} is over, {now}: nothing was committed. Look again: "
                f"josefine transactions describe {transactional_id}"
            )
        ends = {transactional_id: kept.ends}
        outcomes = client.run(lambda s, t, d: end_transactions(s, ends, True, t, d))
        _raise(outcomes[transactional_id])
    _tell("committed", txn, as_json)


def _abort_id(bootstrap: str, transactional_id: str, yes: bool, as_json: bool) -> None:
    """As Kafka's forceTerminateTransaction (KIP-939): the takeover of an id aborts its open
    transaction."""
    with connect(bootstrap) as client:
        txn = _open(client, transactional_id)
        agree(f"Abort {_what(txn)}, and fence its producer?", yes, "aborting")
        ids = (transactional_id,)
        outcomes = client.run(lambda s, t, d: take_ids(s, ids, NEXT_TIMEOUT_MS, t, d))
        _raise(outcomes[transactional_id])
    _tell("aborted", txn, as_json)


def _open(client: BlockingClient, transactional_id: str) -> TransactionDescription:
    """The open transaction of an id. Raises UserError if there is none to decide."""
    txn = _describe(client, transactional_id)
    if txn.state == OPEN:
        return txn
    if txn.state in DECIDED:
        raise UserError(
            f"transactional id '{transactional_id}': {txn.state}, it is decided, and ends when "
            "its markers are written"
        )
    raise UserError(f"transactional id '{transactional_id}': {txn.state}, nothing is open")


def _check_participant(client: BlockingClient, txn: TransactionDescription) -> None:
    """Raises UserError for a transaction that is not of a two-phase participant: only theirs may
    have a timeout above the maximum of other producers (KIP-939)."""
    kind, name = config_admin.RESOURCE_BROKER, str(txn.coordinator)
    configs = client.run(lambda s, t, d: config_admin.describe_resource(s, kind, name, t, d))
    longest = next((each.value for each in configs if each.name == TIMEOUT_MAX), None)
    if txn.timeout_ms <= int(longest or 0):
        raise UserError(
            f"{_what(txn)} is not part of a two-phase commit (its timeout of {txn.timeout_ms} ms "
            "is allowed for any producer): only its producer knows whether all of it is written. "
            f"It is aborted at its timeout, or now by: josefine transactions abort "
            f"{txn.transactional_id}"
        )


def _what(txn: TransactionDescription) -> str:
    count = plural(len(txn.partitions), "partition")
    return (
        f"the transaction of '{txn.transactional_id}' (producer {txn.producer_id} epoch "
        f"{txn.producer_epoch}, {count}, open since {iso_time(txn.started_ms)})"
    )


def _keep(client: BlockingClient, transactional_id: str) -> Kept:
    try:
        return client.run(lambda s, t, d: keep_open(s, transactional_id, t, d))
    except KafkaError as error:
        if error.code is not ErrorCode.transactional_id_authorization_failed:
            raise
        raise UserError(
            f"transactional id '{transactional_id}': only its producer may commit: the broker does "
            "not allow two-phase commits (transactions.two_phase_commit_enable), or you are not "
            "authorized to write under that id"
        ) from error


def _raise(outcome: Outcome) -> None:
    if outcome.error is not None:
        raise outcome.error


def _tell(done: str, txn: TransactionDescription, as_json: bool) -> None:
    if as_json:
        print_json({done: _as_json(txn)})
    else:
        print(f"{done} {_what(txn)}")


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


def _as_json(txn: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": txn.transactional_id,
        "state": txn.state,
        "producer_id": txn.producer_id,
        "producer_epoch": txn.producer_epoch,
        "timeout_ms": txn.timeout_ms,
        "started_ms": txn.started_ms if txn.started_ms >= 0 else None,
        "coordinator": txn.coordinator,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in txn.partitions],
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
