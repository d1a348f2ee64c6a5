"""`josefine journal replicate`: the replication of journals into their store. The store is a
folder, named by `--store` here and in the verbs that read journals.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from josefine_broker.base.durations import FORMS, duration_ms
from josefine_cli.base.errors import EXIT_SIGNAL, UsageError
from josefine_cli.base.extras import need
from josefine_cli.base.output import checked_addresses
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.journal.replicate_run import Asked, replicate_all, replicate_one
from josefine_cli.journal.spark import session
from josefine_cli.kafka.config_pairs import parse_configs
from josefine_journal.failpoints import armed

STORE_HELP = "The folder of the journals' store, or s3://BUCKET/FOLDER."
Store = Annotated[
    str | None,
    typer.Option("--store", envvar="JOSEFINE_JOURNAL_STORE", help=STORE_HELP, metavar="DIRECTORY"),
]
TheStore = Annotated[
    str,
    typer.Option("--store", envvar="JOSEFINE_JOURNAL_STORE", help=STORE_HELP, metavar="DIRECTORY"),
]


def check_store(store: str | None) -> str | None:
    """The same path or URI. Raises UserError if the packages that read a store are missing."""
    if store is not None:
        need("the store of journals", "deltalake", "pyarrow")
    return store


def replicate(
    store: TheStore,
    topic: Annotated[str | None, typer.Argument(help="The topic; it must exist.")] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", help="All topics with this prefix, shared among replicators."),
    ] = None,
    partitions: Annotated[
        str | None, typer.Option(help="Only these, like 0,2,5; default: all.", metavar="NUMBERS")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all is replicated.")] = False,
    interval: Annotated[str, typer.Option(help=f"Pause without new records: {FORMS}.")] = "1s",
    lost: Annotated[
        str,
        typer.Option(
            help="Records that left the topic before they were stored: 'stop', or 'skip' them.",
            metavar="stop|skip",
        ),
    ] = "stop",
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters",
            metavar="TOPIC",
            help="Topic for unreadable records ({topic}: theirs); without it they stop the run.",
        ),
    ] = None,
    expire: Annotated[
        str, typer.Option(help="How often expired journals are purged; 0: never.")
    ] = "1h",
    metrics: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="Serve metrics; 0: any free port."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Fold and write in Spark, which needs Java.")
    ] = False,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option("--spark-conf", metavar="KEY=VALUE", help="Of Spark; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per commit.")] = False,
) -> None:
    """Replicate journals into their store until stopped: of one topic, or of all with a prefix.

    Each event is stored once, even after crashes; several replicators of the same partitions do no
    harm. Start it again after any error: it continues where the store ends.

    \b
    josefine journal replicate accounts --store data/journals
    """
    _refuse_mixtures(topic, prefix, partitions, spark_conf, once=once, spark=spark)
    _refuse_shared_uri(store, prefix, spark=spark)
    asked = Asked(
        store=check_store(store) or store,
        partitions=None if partitions is None else _numbers(partitions),
        once=once,
        interval_ms=_time_ms("--interval", interval),
        passes_lost=not is_stop("--lost", lost),
        dead_letters=dead_letters,
        expire_ms=None if expire == "0" else _time_ms("--expire", expire),
        metrics_port=metrics,
        at=_failpoint(),
        as_json=as_json,
    )
    number = _carry(bootstrap, topic, prefix, asked, spark_conf or () if spark else None)
    if number == signal.SIGINT:  # SIGTERM is a service manager's stop: success
        raise typer.Exit(EXIT_SIGNAL + number)


def _refuse_mixtures(
    topic: str | None,
    prefix: str | None,
    partitions: str | None,
    spark_conf: Sequence[str] | None,
    *,
    once: bool,
    spark: bool,
) -> None:
    """Raises UsageError."""
    if (topic is None) == (prefix is None):
        raise UsageError("give either a TOPIC or --prefix")
    if prefix is not None and (once or partitions is not None):
        raise UsageError("--prefix cannot be combined with --once or --partitions")
    if spark and (prefix is not None or partitions is not None):
        raise UsageError("--spark replicates one whole topic: no --prefix and no --partitions")
    if spark_conf and not spark:
        raise UsageError("--spark-conf needs --spark")


def _refuse_shared_uri(store: str, prefix: str | None, *, spark: bool) -> None:
    """Raises UsageError for what needs a file system."""
    if "://" not in store:
        return
    if prefix is not None:
        raise UsageError(
            f"--prefix shares topics by file locks, which {store} does not have: "
            "name one TOPIC per replicator, or a folder of this machine as --store"
        )
    if spark:
        raise UsageError(
            f"--spark writes into a folder that driver and tasks share, not into {store}: "
            "leave --spark out, or name such a folder as --store"
        )


def _carry(
    bootstrap: str | None,
    topic: str | None,
    prefix: str | None,
    asked: Asked,
    spark: Sequence[str] | None,
) -> int | None:
    """Run until the end; returns the signal that ended it. `spark`: settings, if Spark is used."""
    where = checked_addresses(bootstrap_of(bootstrap))
    if topic is None:
        return asyncio.run(replicate_all(where, str(prefix), asked))
    if spark is None:
        return asyncio.run(replicate_one(where, topic, asked))
    with session(parse_configs(spark, "--spark-conf ")) as found:
        return asyncio.run(replicate_one(where, topic, replace(asked, spark=found)))


def _time_ms(option: str, text: str) -> int:
    found = duration_ms(text)
    if not found:
        raise UsageError(f"{option} {text}: expected a time, like {FORMS}")
    return found


def is_stop(option: str, text: str) -> bool:
    """False: skip. Raises UsageError."""
    if text not in ("stop", "skip"):
        raise UsageError(f"{option} {text}: expected stop or skip")
    return text == "stop"


def _failpoint() -> Callable[[str], None]:
    try:
        return armed(os.environ.get("JOSEFINE_FAIL"))
    except ValueError as error:
        raise UsageError(str(error)) from error


def _numbers(text: str) -> Sequence[int]:
    found = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in found):
        raise UsageError(f"--partitions {text}: expected numbers with commas, like 0,2,5")
    return sorted({int(part) for part in found})
