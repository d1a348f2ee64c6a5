"""`josefine consume`: the records of a topic between two positions, or new ones as they arrive.

Rules: offsets of `--to` are exclusive; records of a partition come in order; positions are resolved
to offsets before the first record is read, so a bounded read ends; compressed, transactional and
control batches are supported, and control batches are not shown.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import Positions
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.membership import Membership
from josefine_broker.client.operations import partition_error
from josefine_cli.base.errors import EXIT_SIGNAL, UsageError, UserError
from josefine_cli.base.output import connect, note
from josefine_cli.base.signals import StopSignals
from josefine_cli.base.waiting import waits
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import group_names, topic_names
from josefine_cli.kafka.consume_group import GroupReader
from josefine_cli.kafka.consume_origin import origins
from josefine_cli.kafka.consume_records import (
    FETCH_BYTES_MAX,
    FETCH_WAIT_MS,
    OutputFormat,
    Write,
    named_when_damaged,
    records_of,
    writer,
)
from josefine_cli.kafka.consume_share import ShareReader
from josefine_cli.kafka.decode import DecodeHow, Message, RegistryAddress, Schema, decoding
from josefine_cli.kafka.names import partition_count
from josefine_cli.kafka.offset_spec import FORMS, Place, is_after, parse_place, resolve
from josefine_cli.kafka.record_template import Part, is_template, parse_template

EARLIEST_LOCAL = -4
"""The first offset that brokers have themselves (KIP-405)."""
FORMATS = ", ".join(OutputFormat)

app = typer.Typer(
    help="Read records of a topic, by offsets or by time.",
    add_completion=False,
    rich_markup_mode=None,
)


Topics = Annotated[
    list[str] | None,
    typer.Argument(help="One or more topics.", metavar="TOPIC...", autocompletion=topic_names),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="Topics whose whole name matches, of those that exist at the start.",
    ),
]
Start = Annotated[str, typer.Option("--from", help=f"First record: {FORMS}.")]
End = Annotated[
    str | None,
    typer.Option("--to", help="Read up to here, exclusive; the same forms. Default: latest."),
]
Partitions = Annotated[
    str | None, typer.Option("--partitions", "-p", help="Like 0,2,5-7. Default: all.")
]
MaxRecords = Annotated[int | None, typer.Option("--max", "-n", min=1, help="Stop after N records.")]
Follow = Annotated[
    bool, typer.Option("--follow", "-F", help="Continue with new records until Ctrl-C.")
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help=f"What a line of the output is: {FORMATS}, or a template like"
        " '{topic} {offset} {key} {value.id}'.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        help="Read as a member of this group, and commit.",
        autocompletion=group_names,
    ),
]
Share = Annotated[
    str | None,
    typer.Option(
        "--share", help="Read as a member of this share group.", autocompletion=group_names
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="The same as --format json: one object per record.")
]


@app.command()
def consume(
    topics: Topics = None,
    pattern: Pattern = None,
    start: Start = "earliest",
    end: End = None,
    partitions: Partitions = None,
    max_records: MaxRecords = None,
    follow: Follow = False,
    output_format: Format = OutputFormat.VALUE,
    group: Group = None,
    share: Share = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
    decode: DecodeHow = None,
    schema: Schema = None,
    message: Message = None,
    registry: RegistryAddress = None,
) -> None:
    """Print records of topics.

    As a member of a group (--group) it reads its assigned partitions, --from applies where the
    group has no committed offset, and printed records are committed. Ctrl-C leaves the group.
    As a member of a share group (--share) it reads what no other member has, and accepts what it
    has printed.

    \b
    josefine consume orders --from -10m
    josefine consume orders --from 2026-01-01 --to 2026-01-02 --json
    josefine consume orders --group readers --follow
    josefine consume orders --share workers --max 10
    josefine consume orders --decode avro --registry http://localhost:8081
    josefine consume orders --decode json --schema 'id BIGINT, note STRING'
    josefine consume orders payments --format '{topic}:{offset} {key} {value.amount}'
    josefine consume --pattern 'orders[.].*' --follow
    """
    _check_together(end, partitions, follow, group)
    if share is not None:
        _check_share(start, end, partitions, group)
    chosen = None if partitions is None else parse_partitions(partitions)
    now_ms = time.time_ns() // 1_000_000
    first = parse_place(start, "--from", now_ms)
    last = parse_place(end, "--to", now_ms) if end is not None else None
    if last is not None and is_after(first, last):
        raise UsageError(f"--from {start} is after --to {end}")
    if sys.stdout is None:  # closed by the parent process, which typeshed does not know
        raise UserError("stdout is closed: there is nowhere to print records to")
    shown = OutputFormat.JSON if as_json else parse_format(output_format)
    where = bootstrap_of(bootstrap)
    names = _topics_of(where, topics or (), pattern)
    if len(names) > 1 and decode is not None and decode.endswith((".yaml", ".yml")):
        raise UsageError(f"--decode {decode} is for one topic: the file's sources differ")
    with decoding(decode, names[0], schema, message, registry) as values:
        write = writer(shown, values, with_topic=len(names) > 1)
        if share is not None:
            _in_group(
                where,
                names,
                lambda opens: ShareReader(
                    opens, share, names, write, max_records=max_records, follow=follow
                ),
                follow=follow,
            )
        else:
            _run(where, names, group, first, last, chosen, write, max_records, follow)


def parse_format(text: str) -> OutputFormat | Part:
    """A format by its name, or a template. Raises UsageError."""
    if is_template(text):
        return parse_template(text)
    try:
        return OutputFormat(text)
    except ValueError:
        raise UsageError(
            f"--format '{text}': expected {FORMATS}, or a template like '{{key}} {{value}}'"
        ) from None


def _topics_of(bootstrap: str, topics: Sequence[str], pattern: str | None) -> tuple[str, ...]:
    """The named topics, or those of the pattern. Raises UsageError without either or with both."""
    if bool(topics) == (pattern is not None):
        raise UsageError("which topics? Name one or more, or give --pattern")
    if pattern is None:
        return tuple(dict.fromkeys(topics))
    try:
        return _topics_like(bootstrap, re.compile(pattern))
    except re.error as error:
        raise UsageError(f"--pattern '{pattern}' is not a regular expression: {error}") from None


def _topics_like(bootstrap: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """The topics of a pattern; internal ones only if it names their beginning. Raises UserError if
    there are none."""
    with connect(bootstrap) as client:
        known = client.metadata().topics.values()
    is_internal = pattern.pattern.startswith("__")
    found = [t.name for t in known if pattern.fullmatch(t.name) and is_internal >= t.is_internal]
    if not found:
        raise UserError(f"no topic's whole name matches --pattern '{pattern.pattern}'")
    return tuple(sorted(found))


def _run(
    bootstrap: str,
    topics: tuple[str, ...],
    group: str | None,
    first: Place,
    last: Place | None,
    chosen: list[int] | None,
    write: Write,
    max_records: int | None,
    follow: bool,
) -> None:
    if group is not None:
        member = Membership(group, topics)
        _in_group(
            bootstrap,
            topics,
            lambda opens: GroupReader(
                opens, member, first, write, max_records=max_records, follow=follow
            ),
            follow=follow,
        )
        return
    with connect(bootstrap) as client:
        tps = [tp for topic in topics for tp in _partitions(client, topic, chosen)]
        earliest = {tp: at.offset for tp, at in _listed(client, tps, EARLIEST).items()}
        latest = {tp: at.offset for tp, at in _listed(client, tps, LATEST).items()}
        starts = resolve(client, first, earliest, latest)
        ends = latest if last is None else resolve(client, last, earliest, latest)
        # Without --follow the ends are those at the start: records that arrive meanwhile would keep
        # the command from ending.
        positions = Positions()
        for tp in tps:
            begin = _begin(tp, starts[tp], earliest[tp], latest[tp], follow)
            positions.assign(tp, begin, None if follow else min(ends[tp], latest[tp]))
        _note_origins(client, positions, tps)
        try:
            if follow:
                _copy(client, positions, write, max_records, flush_each=True)
                return
            with waits(lambda: _ahead(positions)) as moved:
                _copy(client, positions, write, max_records, flush_each=False, moved=moved)
        except KeyboardInterrupt:
            if not follow:
                raise


def _check_together(
    end: str | None, partitions: str | None, follow: bool, group: str | None
) -> None:
    """Raises UsageError for options that exclude each other."""
    if follow and end is not None:
        raise UsageError("--follow has no end: leave --to out")
    if group is not None and (end is not None or partitions is not None):
        refused = "--to" if end is not None else "--partitions"
        raise UsageError(f"{refused} is not for a member of a group: leave it out, or --group")


def _check_share(start: str, end: str | None, partitions: str | None, group: str | None) -> None:
    """Raises UsageError for options that a share group decides itself."""
    for name, given in (("--group", group), ("--to", end), ("--partitions", partitions)):
        if given is not None:
            raise UsageError(f"{name} is not for a member of a share group: leave it out")
    if start != "earliest":
        raise UsageError(
            "--from is not for a member of a share group: move the group with"
            " 'josefine groups reset-offsets'"
        )


def _in_group(
    bootstrap: str,
    topics: tuple[str, ...],
    reader_of: Callable[[Callable[[], BlockingClient]], GroupReader | ShareReader],
    *,
    follow: bool,
) -> None:
    """The topics as one member of a group reads them, whose reader begins once they are there."""
    with connect(bootstrap) as client:
        for topic in topics:
            partition_count(client, topic)
    with StopSignals() as stop:
        reader_of(lambda: connect(bootstrap)).run(stop)
    if stop.number is not None and not (follow and stop.number == signal.SIGINT):
        raise typer.Exit(EXIT_SIGNAL + stop.number)


def _note_origins(client: BlockingClient, positions: Positions, tps: list[TopicPartition]) -> None:
    """Report what is read from archives. Brokers before KIP-405 have none, and refuse to answer."""
    starts = positions.wanted()
    ends = {tp: positions.end_offset(tp) for tp in starts}
    with suppress(KafkaError):
        local = {tp: at.offset for tp, at in _listed(client, tps, EARLIEST_LOCAL).items()}
        for line in origins(starts, ends, local):
            note(line)


def _ahead(positions: Positions) -> str:
    """The records for which a bounded read still waits: a truncated log may end before them."""
    for tp, offset in positions.wanted().items():
        return f"records of {tp} from offset {offset} to {positions.end_offset(tp)}"
    return "the last records"


def parse_partitions(text: str) -> list[int]:
    """`0,2,5-7`. Raises UsageError."""
    numbers: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise UsageError(f"--partitions '{text}' is not like 0,2,5-7")
        if high and int(high) < int(low):
            raise UsageError(f"--partitions '{text}': {low} is after {high}")
        numbers.update(range(int(low), int(high or low) + 1))
    return sorted(numbers)


def _partitions(
    client: BlockingClient, topic: str, chosen: list[int] | None
) -> list[TopicPartition]:
    count = partition_count(client, topic)
    numbers = range(count) if chosen is None else chosen
    missing = [n for n in numbers if n >= count]
    if missing:
        raise UserError(
            f"topic '{topic}' has no partition {missing[0]}: it has {count}, numbered from 0"
        )
    return [TopicPartition(topic, n) for n in numbers]


def _listed(client: BlockingClient, tps: list[TopicPartition], timestamp: int) -> dict[Any, Any]:
    return client.list_offsets(dict.fromkeys(tps, timestamp))


def _begin(tp: TopicPartition, wanted: int, earliest: int, latest: int, follow: bool) -> int:
    """The start offset; a start elsewhere than asked for is reported."""
    if wanted < earliest:
        if wanted > 0:
            note(f"partition {tp.partition}: records before offset {earliest} are deleted")
        return earliest
    if wanted > latest and not follow:
        raise UserError(
            f"partition {tp.partition} of '{tp.topic}' ends at offset {latest}, before {wanted}"
        )
    return wanted


def _copy(
    client: BlockingClient,
    positions: Positions,
    write: Write,
    max_records: int | None,
    *,
    flush_each: bool,
    moved: Callable[[], None] = lambda: None,
) -> None:
    """Read until every partition is at its end or `max_records` are written, else without end."""
    left = max_records
    while not positions.finished:
        fetched = client.fetch(
            positions.wanted(), partition_bytes_max=FETCH_BYTES_MAX, max_wait_ms=FETCH_WAIT_MS
        )
        if any(len(part.records) for part in fetched.values()):
            moved()
        for tp, part in fetched.items():
            if part.error_code is not ErrorCode.none:
                raise partition_error(tp, part.error_code, None)
            with named_when_damaged(tp):
                for record in records_of(tp, part, positions):
                    write(tp, record)
                    if left is not None:
                        left -= 1
                        if left == 0:
                            return
                # By batches, not by what was written: a marker or a compacted record has nothing to
                # write, and the end after it would never be reached.
                positions.advance(tp, part.records)
        if flush_each:
            sys.stdout.flush()
