"""`josefine sinks`: Spark's exactly-once sinks, with the operator's actions for one that stopped:
settle its decision, or forget it.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.base.errors import UserError
from josefine_cli.base.output import connect, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_spark.base.errors import SinkError
from josefine_spark.options.options import TRANSACTION_TIMEOUT_MS
from josefine_spark.write.coordinator_store import SinkStore, all_sinks
from josefine_spark.write.protocol import Steps, forget, settle
from josefine_spark.write.state import SinkState

app = typer.Typer(
    help="List Spark's exactly-once sinks, settle or forget a decision.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

TIMEOUT_MS = 30_000
_COLUMNS = ("sink", "phase", "query", "batch", "transactions")
Sink = Annotated[str, typer.Argument(help="The sink, by its sinkId or its query's id.")]


@app.command("list")
def list_sinks(bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """List the sinks with their last decision, and whether its transactions are all committed
    (settled) or may still be open (decided).

    \b
    josefine sinks list
    """
    with connect(bootstrap_of(bootstrap)) as client:
        found = all_sinks(client, TIMEOUT_MS)
    if as_json:
        print_json([_as_json(sink, state) for sink, state in found.items()])
    elif not found:
        print("no sinks")
    else:
        print_table(_COLUMNS, [_row(sink, state) for sink, state in found.items()])


@app.command("settle")
def settle_sink(sink: Sink, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Commit the transactions of a sink's pending decision, and abort its undecided ones. A run of
    the sink that is still alive is stopped.

    \b
    josefine sinks settle orders-copy
    """
    with connect(bootstrap_of(bootstrap)) as client:
        _check_known(client, sink)
        done = _run(client, sink, settle(sink))
    if as_json:
        print_json({"sink": sink, "settled": done})
    else:
        print(
            f"{sink}: " + ("its last batch is committed now" if done else "no decision was pending")
        )


@app.command("forget")
def forget_sink(sink: Sink, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Forget a sink's last decision: its next run writes any batch, even if its rows may be in the
    topic already.

    \b
    josefine sinks forget orders-copy
    """
    with connect(bootstrap_of(bootstrap)) as client:
        _check_known(client, sink)
        done = _run(client, sink, forget(sink))
    if as_json:
        print_json({"sink": sink, "forgotten": done})
    else:
        print(f"{sink}: " + ("forgotten" if done else "there was nothing to forget"))


def _check_known(client: BlockingClient, sink: str) -> None:
    found = all_sinks(client, TIMEOUT_MS)
    if sink not in found:
        raise UserError(f"no sink '{sink}': there are {', '.join(found) or 'none'}")


def _run(client: BlockingClient, sink: str, steps: Steps) -> bool:
    store = SinkStore(client, sink, TRANSACTION_TIMEOUT_MS, TIMEOUT_MS)
    try:
        done: bool = store.run(steps)
    except SinkError as error:
        raise UserError(str(error)) from error
    return done


def _row(sink: str, state: SinkState) -> tuple[Any, ...]:
    decided = state.decided
    batch = ("-", "-") if decided is None else (decided.query_id, decided.batch_id)
    return sink, state.phase.value, *batch, len(state.transactions)


def _as_json(sink: str, state: SinkState) -> dict[str, Any]:
    decided = state.decided
    return {
        "sink": sink,
        "phase": state.phase.value,
        "generation": state.generation,
        "query_id": decided and decided.query_id,
        "batch_id": decided and decided.batch_id,
        "transactions": [each for each, _ in state.transactions],
    }
