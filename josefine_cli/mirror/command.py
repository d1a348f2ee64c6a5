"""`josefine mirror`: topics of a Kafka cluster, with the same offsets."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from josefine_broker.base.durations import FORMS, duration_ms
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.retry import Action, action_for
from josefine_cli.base.client_config import configured_security
from josefine_cli.base.errors import EXIT_SIGNAL, UsageError, UserError
from josefine_cli.base.output import (
    checked_addresses,
    connect,
    note,
    plural,
    print_json,
    print_table,
)
from josefine_cli.base.signals import StopSignals
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import topic_names
from josefine_cli.mirror.access import acls_of, add_acls
from josefine_cli.mirror.configs import ENDS, SESSION, SOURCE
from josefine_cli.mirror.copier import LEADERS_MS, Copier
from josefine_cli.mirror.cutover import copy_groups, cut_over, cut_over_as_is
from josefine_cli.mirror.plan import Ends, Why
from josefine_cli.mirror.sides import (
    Source,
    check_target,
    claim,
    ends_of,
    new_session,
    open_source,
    source_topic,
    was_cut_over,
)
from josefine_cli.mirror.verify import check_compacted, check_partition

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

REST_S = 1.0
"""The pause after an error of a cluster, which may be starting."""
GROUPS_EVERY_S = 10.0
SESSIONS_EVERY_S = 5.0

From = Annotated[
    str, typer.Option("--from", help="Brokers of the source, host:port[,host:port …].")
]
FromConfig = Annotated[
    str | None,
    typer.Option(
        "--from-config",
        help="File with the source's security settings, such as sasl.username; default: none.",
        metavar="FILE",
    ),
]
Topics = Annotated[
    list[str],
    typer.Option("--topic", "-t", help="A topic; repeatable.", autocompletion=topic_names),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        "-g",
        help="Also keep the offsets of these groups, such as 'orders-*'; repeatable.",
        metavar="PATTERN",
    ),
]


class _Both(NamedTuple):
    """The two clusters."""

    source: BlockingClient
    target: BlockingClient


@app.callback()
def mirror() -> None:
    """Copy topics from Apache Kafka, or from Josefine, with the same offsets.

    Batches stay byte for byte as they are: offsets, timestamps, keys, headers, producers,
    transactions. Clients cannot write to a mirrored topic until it is cut over.

    \b
    josefine mirror run --from kafka1:9092 --topic orders --group 'orders-*'
    josefine mirror status
    josefine mirror verify --from kafka1:9092 --topic orders
    josefine mirror cutover --from kafka1:9092 --topic orders --group 'orders-*'
    """


@contextmanager
def _connected(source: str, config: str | None, target: str | None) -> Iterator[_Both]:
    """Clients of both clusters. Raises UsageError."""
    where = checked_addresses(bootstrap_of(target))
    security = configured_security(os.environ, where)
    with (
        open_source(source, config) as theirs,
        BlockingClient(where, client_id="josefine-mirror", security=security) as ours,
    ):
        yield _Both(theirs, ours)


def _claim(both: _Both, topics: list[str], session: str, factor: int) -> dict[str, Source]:
    """Make each topic this session's mirror. Raises UserError, KafkaError."""
    ids = {client.metadata([]).cluster_id for client in both}
    if len(ids) == 1 and None not in ids:
        raise UsageError("--from is the cluster to mirror into: name the brokers of another one")
    found = {topic: source_topic(both.source, topic) for topic in topics}
    # All before the first claim, which ends the mirror that runs.
    for topic, each in found.items():
        check_target(each, both.target, topic)
    for topic, each in found.items():
        unserved = claim(each, both.target, topic, session, replication_factor=factor)
        if unserved:
            note(f"topic '{topic}': not served here, so left out: {', '.join(unserved)}")
    return found


@app.command()
def run(
    source: From,
    topics: Topics,
    groups: Groups = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when the mirrors have what their sources have now.")
    ] = False,
    replication_factor: Annotated[
        int, typer.Option(help="Replicas of a topic that is created; -1: as the brokers have it.")
    ] = -1,
    source_config: FromConfig = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Mirror topics until Ctrl-C, or until they are cut over.

    A topic that is missing is created with the source's partitions and configs. The last run of a
    topic is its only mirror: an older one ends. A kill at any moment loses and repeats nothing.

    \b
    josefine mirror run --from kafka1:9092 --topic orders --topic customers
    josefine mirror run --from kafka1:9092 --topic orders --once
    """
    with _connected(source, source_config, bootstrap) as both, StopSignals() as signals:
        session = new_session()
        found = _claim(both, topics, session, replication_factor)
        copier = Copier(both.source, both.target, session, note)
        until = attached(copier, found, signals)
        try:
            _copy(both, copier, groups or [], signals, until if once else None)
        finally:
            copier.pause()
        stopped = signals.number
        # A cut-over ends a running mirror, which is no failure.
        cut = {topic for topic in topics if was_cut_over(both.target, topic)}
    for topic in sorted(cut):
        note(f"topic '{topic}' was cut over")
    ended = {tp: each for tp, each in copier.verdicts.items() if tp.topic not in cut}
    # Another mirror or a cut-over has taken these over. A failure would start this one again, which
    # would take them back.
    if ended and (once or any(each.why is not Why.FENCED for each in ended.values())):
        count = len({*copier.parts, *copier.verdicts})
        raise UserError(f"{len(ended)} of {count} partitions are no longer mirrored")
    if once and stopped is None:
        print(f"{plural(len(copier.parts), 'partition')} at their sources' ends, "
              f"{copier.copied_bytes} bytes copied")  # fmt: skip
    if stopped == signal.SIGINT:
        raise typer.Exit(EXIT_SIGNAL + stopped)


def attached(
    copier: Copier, topics: Mapping[str, Source], signals: StopSignals, rest_s: float = REST_S
) -> dict[TopicPartition, int]:
    """Start to copy the topics: where their sources end now. A partition without a leader is waited
    for until a signal, as a consumer does. Raises KafkaError for what does not pass."""
    said = ""
    while signals.number is None:
        try:
            copier.attach(topics)
            return {tp: copier.parts[tp].position + far for tp, far in copier.lags().items()}
        except KafkaError as error:
            if action_for(error.code) is Action.FAIL:
                raise
            said = _waited(error, said, signals, rest_s)
    return {}


def _waited(error: KafkaError, said: str, signals: StopSignals, rest_s: float = REST_S) -> str:
    """Report an error that passes, once, and pause; what is `said` now."""
    if str(error) != said:
        note(f"waiting: {error}")
    select.select([signals.descriptor], [], [], rest_s)
    return str(error)


def _copy(
    both: _Both,
    copier: Copier,
    groups: list[str],
    signals: StopSignals,
    until: Mapping[TopicPartition, int] | None,
) -> None:
    """Append what the source has until a signal, `until` these ends, or until every partition has
    its verdict. An error that passes is reported once, and what was not appended is read again."""
    said, is_even, groups_due_s, sessions_due_s = "", False, 0.0, 0.0
    last: dict[str, dict[TopicPartition, int]] = {}
    while signals.number is None and not copier.verdicts.keys() >= copier.parts.keys():
        try:
            # First: after a cut-over the source may be gone.
            if time.monotonic() >= sessions_due_s:
                sessions_due_s = time.monotonic() + SESSIONS_EVERY_S
                copier.own_topics(time.monotonic())
            is_busy = copier.step()
            if not is_busy and not is_even:
                is_even = not any(copier.lags(LEADERS_MS).values())
                if is_even:
                    note(
                        f"mirrors have what their sources have: {copier.copied_bytes} bytes copied"
                    )
            # After the append: a group must not be ahead of the records that are here.
            is_due = time.monotonic() >= groups_due_s
            if groups and (is_due or until is not None):
                groups_due_s = time.monotonic() + GROUPS_EVERY_S
                _keep_groups(both, copier, groups, last)
            said = ""
        except KafkaError as error:
            said = _waited(error, said, signals)
            continue
        if until is not None and all(
            copier.parts[tp].position >= end for tp, end in until.items()
            if tp not in copier.verdicts
        ):  # fmt: skip
            return


def _keep_groups(
    both: _Both,
    copier: Copier,
    groups: list[str],
    last: dict[str, dict[TopicPartition, int]],
) -> None:
    """Commit the groups' offsets, as far as the mirror has the records. After a cut-over the groups
    continue here, and the offsets of the source are old."""
    own = copier.own_topics(time.monotonic())
    ends = {tp: part.position for tp, part in copier.parts.items() if tp.topic in own}
    copy_groups(both.source, both.target, groups, ends, last)


@app.command()
def cutover(
    topics: Topics,
    source: Annotated[
        str | None, typer.Option("--from", help="Brokers of the source, host:port[,host:port …].")
    ] = None,
    groups: Groups = None,
    as_is: Annotated[
        bool,
        typer.Option("--as-is", help="Cut over to what is here, without asking the source."),
    ] = False,
    timeout: Annotated[
        str, typer.Option(help=f"How long the source may take to be quiet: {FORMS}.")
    ] = "30s",
    source_config: FromConfig = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """End the mirrors of topics: copy the rest, then let clients write here.

    Stop the source's producers first. A running mirror of these topics ends. Consumers and Spark
    checkpoints continue at exactly the next record, with their offsets as they are.

    With --as-is for a source that is lost or has lost records: what was not copied is not here.

    \b
    josefine mirror cutover --from kafka1:9092 --topic orders --group 'orders-*'
    josefine mirror cutover --as-is --topic orders
    """
    timeout_ms = duration_ms(timeout)
    if not timeout_ms:
        raise UsageError(f"--timeout {timeout}: expected a time such as {FORMS}")
    if as_is == (source is not None) or (as_is and groups):
        raise UsageError("name the source with --from, or cut over without it by --as-is alone")
    before_s = time.monotonic()
    if source is None:
        with connect(bootstrap_of(bootstrap)) as target:
            cut = cut_over_as_is(target, topics, note)
    else:
        with _connected(source, source_config, bootstrap) as both:
            # A session of its own: a mirror that runs must not append any more.
            session = new_session()
            found = _claim(both, topics, session, -1)
            copier = Copier(both.source, both.target, session)
            copier.attach(found)
            limit_s = timeout_ms / 1000
            try:
                cut = cut_over(both.source, both.target, copier, found, groups or [], limit_s, note)
            except (UserError, KafkaError):
                note("mirrors of these topics that ran have ended: start `josefine mirror run` "
                     "again, or repeat the cut-over")  # fmt: skip
                raise
            finally:
                copier.pause()
    took_s = time.monotonic() - before_s
    if as_json:
        ends = {str(tp): end for tp, end in sorted(cut.ends.items())}
        print_json({"ends": ends, "groups": cut.groups, "skipped": cut.skipped, "seconds": took_s})
        return
    for tp, end in sorted(cut.ends.items()):
        print(f"{tp}: clients write from offset {end} on")
    for group, count in sorted(cut.groups.items()):
        print(f"group {group}: {count} offsets")
    for group, why in sorted(cut.skipped.items()):
        note(f"group {group}: its offsets are not here: {why}")
    print(f"cut over in {took_s:.1f} s")


@app.command()
def verify(
    source: From,
    topics: Topics,
    source_config: FromConfig = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Compare mirrors with their sources, byte for byte, at the offsets that both have.

    \b
    Example: josefine mirror verify --from kafka1:9092 --topic orders
    """
    bad = 0
    with _connected(source, source_config, bootstrap) as both:
        for topic in topics:
            found = source_topic(both.source, topic)
            tps = [TopicPartition(topic, index) for index in range(found.partitions)]
            theirs, ours = ends_of(both.source, tps), ends_of(both.target, tps)
            check = check_compacted if found.compacts else check_partition
            what = "records" if found.compacts else "batches"
            for tp in tps:
                # Each side deletes in its own time.
                start = max(theirs[tp].start, ours[tp].start)
                shared = Ends(start, max(start, min(theirs[tp].end, ours[tp].end)))
                result = check(both.source, both.target, tp, shared)
                bad += bool(result.wrong)
                if as_json:
                    print_json({"partition": str(tp), **result._asdict()})
                elif result.wrong:
                    note(f"{tp}: {result.wrong}")
                else:
                    print(
                        f"{tp}: the same {result.batches} {what} from offset {shared.start} to "
                        f"{shared.end}, checksum {result.digest}"
                    )
    if bad:
        raise UserError(f"{bad} partitions are not as in the source")


@app.command()
def acls(
    source: From,
    topics: Topics,
    groups: Groups = None,
    execute: Annotated[bool, typer.Option("--execute", help="Add them; else only list.")] = False,
    source_config: FromConfig = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List the source's access rules for topics and groups, and add them here with --execute.

    Rules that match by a prefix or for all names are among them. Users are not copied.

    \b
    Example: josefine mirror acls --from kafka1:9092 --topic orders --group 'orders-*' --execute
    """
    with _connected(source, source_config, bootstrap) as both:
        # Only what names these topics and groups: other rules may mean other things here.
        found = acls_of(both.source, topics, groups or [])
        if execute and found:
            add_acls(both.target, found)
    rows = [
        (a.principal, a.host, a.permission.name.lower(), a.operation.name.lower(),
         a.resource_type.name.lower(), a.name, a.pattern.name.lower())
        for a in found
    ]  # fmt: skip
    columns = ("user", "host", "permission", "operation", "resource", "name", "pattern")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    print_table(columns, rows)
    note(f"{plural(len(rows), 'rule')} {'added' if execute else 'found: --execute adds them'}")


@app.command()
def status(
    source: Annotated[
        str | None, typer.Option("--from", help="Brokers of the source, to compare with.")
    ] = None,
    source_config: FromConfig = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show the mirrored topics, where each partition ends, and how far it is from its source.

    \b
    Example: josefine mirror status --from kafka1:9092
    """
    rows = []
    with connect(bootstrap_of(bootstrap)) as target:
        known = target.metadata()
        names = [name for name, topic in known.topics.items() if not topic.is_internal]
        configs = target.describe_configs(names) if names else {}
        # A cut-over topic keeps the name of its source.
        mirrored = {n: c for n, c in sorted(configs.items()) if SOURCE in c and c[SOURCE].value}
        tps = [tp for name in mirrored for tp in known.partitions_of(name)]
        ours, theirs = ends_of(target, tps), _their_ends(source, source_config, tps)
    for tp in tps:
        found = mirrored[tp.topic]
        session = found[SESSION].value
        end = theirs.get(tp)
        rows.append({
            "partition": str(tp), "source": found[SOURCE].value, "session": session or None,
            "start": ours[tp].start, "end": ours[tp].end,
            "lag": None if end is None else max(0, end.end - ours[tp].end),
            "ends": found[ENDS].value if ENDS in found else "",
        })  # fmt: skip
    if as_json:
        print_json(rows)
        return
    print_table(
        ("partition", "start", "end", "lag", "state"),
        [
            (r["partition"], r["start"], r["end"], "-" if r["lag"] is None else r["lag"],
             f"mirror, session {r['session']}" if r["session"] else "cut over")
            for r in rows
        ],
    )  # fmt: skip


def _their_ends(
    source: str | None, config: str | None, tps: list[TopicPartition]
) -> dict[TopicPartition, Ends]:
    """The ends of the source's partitions; empty without a source."""
    found: dict[TopicPartition, Ends] = {}
    if source is None:
        return found
    with open_source(source, config) as client:
        for tp in tps:
            try:
                found |= ends_of(client, [tp])
            except KafkaError as error:
                if error.code is not ErrorCode.unknown_topic_or_partition:
                    raise
    return found
