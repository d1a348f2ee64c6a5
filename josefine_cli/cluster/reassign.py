"""`josefine cluster reassign | elect | remove`: changes of a running cluster, through Kafka's APIs.

Partitions are named TOPIC or TOPIC:PARTITION; the result of each is printed, and one refusal makes
the exit code 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import replicas
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.replicas import PREFERRED, UNCLEAN, Errors, Move
from josefine_cli.base.errors import EXIT_FAILURE, UsageError
from josefine_cli.base.output import connect, plural, print_json, print_table
from josefine_cli.cluster.local import DEFAULT_DIRECTORY, command_for
from josefine_cli.cluster.target import (
    AsJson,
    Bootstrap,
    BrokerId,
    Directory,
    bootstrap_of,
    local_cluster,
)

SHOWN_TOPICS = 5

Where = Annotated[
    str, typer.Argument(help="A topic, or one of its partitions.", metavar="TOPIC[:PARTITION]")
]


def reassign(
    where: Annotated[
        str | None,
        typer.Argument(help="A topic, or one of its partitions.", metavar="TOPIC[:PARTITION]"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="BROKER,...",
            help="Brokers to move to, the preferred leader first; for a whole topic the list is "
            "turned by one from partition to partition, so that each broker leads its share.",
        ),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the move.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Show ongoing moves.")] = False,
    directory: Directory = DEFAULT_DIRECTORY,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Move partitions to other brokers while they are written and read.

    \b
    josefine cluster reassign orders:0 --to 1,2,4
    josefine cluster reassign --list
    """
    if sum((to is not None, cancel, list_all)) != 1:
        raise UsageError("give one of --to BROKER,..., --cancel and --list")
    if where is None and not list_all:
        raise UsageError("name the TOPIC[:PARTITION] to move")
    brokers = () if to is None else _parse_brokers(to)
    with connect(bootstrap_of(bootstrap, directory)) as client:
        if list_all:
            _print_moves(_moves(client, where), as_json)
            return
        assert where is not None
        tps = _partitions(client, where)
        targets = {tp: _target(tp, where, brokers) if brokers else None for tp in tps}
        outcomes = client.run(lambda s, t, d: replicas.reassign(s, targets, t, d))
    if cancel:  # partitions without a move are skipped, unless none has one
        moving = {tp: error for tp, error in outcomes.items() if not _stood_still(error)}
        outcomes = moving or outcomes
    words = {
        tp: f"moves to {_joined(target)}" if target else "stays where it was"
        for tp, target in targets.items()
    }
    _print_outcomes(outcomes, words, as_json)


def elect(
    where: Where,
    preferred: Annotated[
        bool, typer.Option("--preferred", help="Elect the first replica (the default).")
    ] = False,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Elect any replica if none leads: records may be lost"),
    ] = False,
    directory: Directory = DEFAULT_DIRECTORY,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Elect leaders now, without waiting for the controller's own balance.

    \b
    josefine cluster elect orders:0
    josefine cluster elect orders --preferred
    """
    if preferred and unclean:
        raise UsageError("--preferred and --unclean exclude each other")
    with connect(bootstrap_of(bootstrap, directory)) as client:
        tps = _partitions(client, where)
        election = UNCLEAN if unclean else PREFERRED
        outcomes = client.run(lambda s, t, d: replicas.elect_leaders(s, election, tps, t, d))
        topic = tps[0].topic
        leaders = client.metadata([topic]).topics[topic].partitions
    words = {tp: f"led by {leaders[tp.partition].leader}" for tp in tps}
    # ELECTION_NOT_NEEDED means that the wanted leader leads: for the user that is success, so that
    # the command may be repeated.
    settled = {tp: None if _not_needed(error) else error for tp, error in outcomes.items()}
    words |= {tp: f"{words[tp]} already" for tp, error in outcomes.items() if _not_needed(error)}
    _print_outcomes(settled, words, as_json)


def remove(
    broker: BrokerId,
    data_lost: Annotated[
        bool,
        typer.Option(
            "--data-lost",
            help="Its data directory is lost: only its vote is taken away, so that it can start "
            "with an empty one, under its number, and copy everything.",
        ),
    ] = False,
    directory: Directory = DEFAULT_DIRECTORY,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Take a broker out of the cluster for good; move its partitions away first (reassign).

    \b
    josefine cluster remove 3
    """
    where = bootstrap_of(bootstrap, directory)
    if data_lost:
        _remove_vote(broker, where, directory if bootstrap is None else None, as_json)
        return
    with connect(where) as client:
        try:
            client.run(lambda s, t, d: replicas.remove_broker(s, broker, t, d))
        except KafkaError as error:
            hint = command_for(f"partitions --broker {broker}", directory)
            lists = f"; {hint} lists them" if bootstrap is None else ""
            raise _with_topics(error, client, broker, lists) from error
    # Only after the controller has agreed: a refused removal must leave the process running.
    cluster = local_cluster(directory) if bootstrap is None else None
    if cluster is not None and broker in cluster.brokers:
        cluster.stop([broker])
        cluster.forget(broker)
    if as_json:
        print_json({"removed": broker})
    else:
        print(f"removed broker {broker}; its process can be stopped")


def _remove_vote(broker: int, where: str, directory: Path | None, as_json: bool) -> None:
    with connect(where) as client:
        client.run(lambda s, t, d: replicas.remove_voter(s, broker, t, d))
    if as_json:
        print_json({"may_begin_anew": broker})
        return
    local = directory is not None and local_cluster(directory) is not None
    starts = command_for(f"restart {broker}", directory or DEFAULT_DIRECTORY)
    how = f"{starts} starts it" if local else "start it"
    print(f"broker {broker} has no vote any more and may start with an empty directory: {how}")


def _with_topics(error: KafkaError, client: BlockingClient, broker: int, hint: str) -> KafkaError:
    """The refusal with the topics of the broker's replicas, which must be moved first."""
    if "holds replicas" not in error.message:  # other refusals have the same code
        return error
    held = sorted(
        topic.name
        for topic in client.metadata().topics.values()
        if any(broker in each.replicas for each in topic.partitions.values())
    )
    if not held:
        return error
    more = f" and {len(held) - SHOWN_TOPICS} more" if len(held) > SHOWN_TOPICS else ""
    names = f"{', '.join(held[:SHOWN_TOPICS])}{more}"
    return KafkaError(error.code, f"{error.message} ({names}{hint})")


def _parse_brokers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"--to '{text}' is not a list of broker numbers, for example 2,3,1")
    brokers = tuple(int(part) for part in parts)
    if len(set(brokers)) < len(brokers):
        raise UsageError(f"--to '{text}' names a broker twice")
    return brokers


def _split(where: str) -> tuple[str, int | None]:
    topic, colon, index = where.partition(":")
    if not topic or (colon and not index.isdecimal()):
        raise UsageError(f"'{where}' is neither TOPIC nor TOPIC:PARTITION")
    return topic, int(index) if colon else None


def _partitions(client: BlockingClient, where: str) -> list[TopicPartition]:
    topic, index = _split(where)
    count = client.partition_count(topic)
    if index is None:
        return [TopicPartition(topic, each) for each in range(count)]
    if index >= count:
        has = plural(count, "partition")
        raise UsageError(f"topic '{topic}' has no partition {index}: it has {has}, from 0")
    return [TopicPartition(topic, index)]


def _target(tp: TopicPartition, where: str, brokers: tuple[int, ...]) -> tuple[int, ...]:
    if ":" in where:
        return brokers
    turn = tp.partition % len(brokers)
    return brokers[turn:] + brokers[:turn]


def _moves(client: BlockingClient, where: str | None) -> dict[TopicPartition, Move]:
    moves = client.run(replicas.list_reassignments)
    if where is None:
        return moves
    topic, index = _split(where)
    return {
        tp: move
        for tp, move in moves.items()
        if tp.topic == topic and index in (None, tp.partition)
    }


def _print_moves(moves: Mapping[TopicPartition, Move], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "replicas": list(move.replicas),
                    "adding": list(move.adding),
                    "removing": list(move.removing),
                }
                for tp, move in moves.items()
            ]
        )
    elif not moves:
        print("no partition is being moved")
    else:
        columns = ("topic", "partition", "replicas", "adding", "removing")
        rows = [
            (tp.topic, tp.partition, *map(_joined, (move.replicas, move.adding, move.removing)))
            for tp, move in moves.items()
        ]
        print_table(columns, rows)


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"


def _stood_still(error: KafkaError | None) -> bool:
    return error is not None and error.code is ErrorCode.no_reassignment_in_progress


def _not_needed(error: KafkaError | None) -> bool:
    return error is not None and error.code is ErrorCode.election_not_needed


def _print_outcomes(outcomes: Errors, words: Mapping[TopicPartition, str], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "error": None if error is None else error.message,
                }
                for tp, error in outcomes.items()
            ]
        )
    else:
        for tp, error in outcomes.items():
            print(f"{tp}: {words[tp]}" if error is None else f"error: {error.message}")
    if any(error is not None for error in outcomes.values()):
        raise typer.Exit(EXIT_FAILURE)
