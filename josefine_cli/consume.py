"""`josefine consume`: records of a topic between two places, or from now on.

Rules: offsets of `--to` are exclusive; within a partition records come in order; what a place
means in each partition is settled before the first record is read, so a bounded read ends;
compressed, transactional and control batches are understood, control batches not shown.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from josefine_broker.base.errors import CorruptData, ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import FetchedPartition, Positions
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.operations import partition_error
from josefine_broker.records.batch import iter_batches, verify
from josefine_broker.records.reader import Record, read_records
from josefine_cli.cluster_where import Bootstrap, bootstrap_of
from josefine_cli.errors import UsageError, UserError
from josefine_cli.output import (
    connect,
    iso_time,
    note,
    printable,
    put_bytes,
)
from josefine_cli.waiting import waits
from josefine_cli.when import FORMS, is_after, parse_place, resolve

app = typer.Typer(
    help="Read records of a topic, by offsets or by time.",
    add_completion=False,
    rich_markup_mode=None,
)

FETCH_WAIT_MS = 500
FETCH_BYTES_MAX = 4 * 1024 * 1024


class OutputFormat(StrEnum):
    """What one line of the output is."""

    VALUE = "value"
    KEY_VALUE = "key-value"
    JSON = "json"
    FULL = "full"


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    start: Annotated[str, typer.Option("--from", help=f"First record: {FORMS}.")] = "earliest",
    end: Annotated[
        str | None,
        typer.Option("--to", help="Read up to here, exclusive; the same forms. Default: latest."),
    ] = None,
    partitions: Annotated[
        str | None, typer.Option("--partitions", "-p", help="Like 0,2,5-7. Default: all.")
    ] = None,
    max_records: Annotated[
        int | None, typer.Option("--max", "-n", min=1, help="Stop after so many records.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Go on with new records until Ctrl-C.")
    ] = False,
    output_format: Annotated[
        OutputFormat, typer.Option("--format", "-f", help="What a line of the output is.")
    ] = OutputFormat.VALUE,
    bootstrap: Bootstrap = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --format json: one object per record.")
    ] = False,
) -> None:
    """Print records of a topic."""
    if follow and end is not None:
        raise UsageError("--follow has no end: leave --to out")
    chosen = None if partitions is None else parse_partitions(partitions)
    now_ms = time.time_ns() // 1_000_000
    first = parse_place(start, "--from", now_ms)
    last = parse_place(end, "--to", now_ms) if end is not None else None
    if last is not None and is_after(first, last):
        raise UsageError(f"--from {start} is after --to {end}")
    if sys.stdout is None:  # closed by whoever started this: typeshed does not know
        raise UserError("stdout is closed: there is nowhere to print records to")
    write = _writer(OutputFormat.JSON if as_json else output_format)
    with connect(bootstrap_of(bootstrap)) as client:
        tps = _partitions(client, topic, chosen)
        earliest = {tp: at.offset for tp, at in _listed(client, tps, EARLIEST).items()}
        latest = {tp: at.offset for tp, at in _listed(client, tps, LATEST).items()}
        starts = resolve(client, first, earliest, latest)
        ends = latest if last is None else resolve(client, last, earliest, latest)
        positions = Positions()
        for tp in tps:
            begin = _begin(tp, starts[tp], earliest[tp], latest[tp], follow)
            positions.assign(tp, begin, None if follow else min(ends[tp], latest[tp]))
        try:
            if follow:
                _copy(client, positions, write, max_records, flush_each=True)
                return
            with waits(lambda: _ahead(positions)) as moved:
                _copy(client, positions, write, max_records, flush_each=False, moved=moved)
        except KeyboardInterrupt:
            if not follow:
                raise


def _ahead(positions: Positions) -> str:
    """What a bounded read still waits for: it may be that a log ends earlier than it did."""
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
    count = client.partition_count(topic)
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
    """Where to start: never silently elsewhere than asked for."""
    if wanted < earliest:
        if wanted > 0:
            note(f"partition {tp.partition}: records before offset {earliest} are gone")
        return earliest
    if wanted > latest and not follow:
        raise UserError(
            f"partition {tp.partition} of '{tp.topic}' ends at offset {latest}, before {wanted}"
        )
    return wanted


def _copy(
    client: BlockingClient,
    positions: Positions,
    write: Callable[[TopicPartition, Record], None],
    max_records: int | None,
    *,
    flush_each: bool,
    moved: Callable[[], None] = lambda: None,
) -> None:
    """Read until every partition is at its end, `max_records` are written, or for ever."""
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
            with _named_when_damaged(tp):
                for record in _records(tp, part, positions):
                    write(tp, record)
                    if left is not None:
                        left -= 1
                        if left == 0:
                            return
                positions.advance(tp, part.records)
        if flush_each:
            sys.stdout.flush()


@contextlib.contextmanager
def _named_when_damaged(tp: TopicPartition) -> Iterator[None]:
    """Bytes do not know where they lie: add it, and what finds the place in the files."""
    try:
        yield
    except CorruptData as error:
        raise UserError(
            f"partition {tp} is damaged: {error}; "
            "'josefine log verify' finds the place once the broker is stopped"
        ) from error


def _records(tp: TopicPartition, part: FetchedPartition, positions: Positions) -> Iterator[Record]:
    """Records of whole batches from the position to the end; batches may begin before it."""
    begin, end = positions.position(tp), positions.end_offset(tp)
    assert begin is not None, tp
    for pos, header in iter_batches(part.records):
        if header.is_control:
            continue
        verify(part.records, pos, header)
        for record in read_records(part.records[pos : pos + header.size_bytes]):
            if end is not None and record.offset >= end:
                return
            if record.offset >= begin:
                yield record


def _writer(output_format: OutputFormat) -> Callable[[TopicPartition, Record], None]:
    """Bytes as they are into files and pipes; on a terminal nothing that could upset it."""
    out = sys.stdout.buffer if hasattr(sys.stdout, "buffer") else None
    is_terminal = sys.stdout.isatty() or out is None

    def raw(data: bytes | None) -> bytes:
        return printable(data).encode() if is_terminal else (data or b"")

    def put(line: bytes) -> None:
        if out is None:
            print(line.decode())
        else:
            out.write(line + b"\n")

    writers: dict[OutputFormat, Callable[[TopicPartition, Record], None]] = {
        OutputFormat.VALUE: lambda tp, r: put(raw(r.value)),
        OutputFormat.KEY_VALUE: lambda tp, r: put(raw(r.key) + b"\t" + raw(r.value)),
        OutputFormat.JSON: lambda tp, r: put(
            json.dumps(as_object(tp, r), ensure_ascii=False).encode("utf-8", "surrogatepass")
        ),
        OutputFormat.FULL: lambda tp, r: put(_full(tp, r).encode()),
    }
    return writers[output_format]


def as_object(tp: TopicPartition, record: Record) -> dict[str, Any]:
    """A record as JSON: what `josefine produce --format json` reads."""
    fields: dict[str, Any] = {
        "topic": tp.topic,
        "partition": tp.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "time": iso_time(record.timestamp_ms),
    }
    put_bytes(fields, "key", record.key)
    put_bytes(fields, "value", record.value)
    if record.headers:
        fields["headers"] = [_header(name, value) for name, value in record.headers]
    return fields


def _header(name: str, value: bytes | None) -> dict[str, Any]:
    header: dict[str, Any] = {"name": name}
    put_bytes(header, "value", value)
    return header


def _full(tp: TopicPartition, record: Record) -> str:
    moment = iso_time(record.timestamp_ms) or "-"
    headers = "".join(f" {printable(n.encode())}={printable(v)}" for n, v in record.headers)
    return (
        f"{tp.partition}:{record.offset} {moment} key={printable(record.key)}{headers} "
        f"{printable(record.value)}"
    )
