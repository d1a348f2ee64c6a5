"""`josefine produce`: records from a file or stdin into a topic.

Input is lines (one value each, or key and value around a separator) or JSON lines: objects with
key, value, headers, partition, timestamp_ms, in the format of `josefine consume --json`. Bytes are
written unchanged; a line that cannot be parsed stops the run with its line number, after the lines
before it are written. When the input pauses, the collected records are written at once, and no line
waits longer than a second. Ctrl-C and SIGTERM end the input: its records are written and counted.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import typer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingProducer
from josefine_broker.client.producing import Delivered
from josefine_broker.records.compression import Compression
from josefine_cli.base.errors import EXIT_SIGNAL, UsageError, UserError
from josefine_cli.base.output import (
    connect,
    is_terminal,
    note,
    parse_headers,
    plural,
    print_json,
)
from josefine_cli.base.signals import StopSignals
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import topic_names
from josefine_cli.kafka.lines import lines_and_pauses
from josefine_cli.kafka.names import partition_count

app = typer.Typer(
    help="Write records from a file or stdin to a topic.",
    add_completion=False,
    rich_markup_mode=None,
)

PROGRESS_EVERY_RECORDS = 10_000
JSON_FIELDS = ("key", "value", "headers", "partition", "timestamp_ms")
IGNORED_FIELDS = ("topic", "offset", "time")
"""Fields of `josefine consume --json` that are ignored: the broker assigns them again."""

FORMAT_HELP = (
    "Format of the input's lines; a json line is an object with "
    "any of key, value (or key_base64, value_base64), headers, partition, timestamp_ms."
)

Headers = tuple[tuple[str, bytes | None], ...]


class Acks(StrEnum):
    """The replicas that must have a record before it counts as written."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


ACKS_NUMBER = {Acks.ALL: -1, Acks.LEADER: 1, Acks.NONE: 0}


class InputFormat(StrEnum):
    """The format of an input line."""

    LINES = "lines"
    JSON = "json"


class CompressionName(StrEnum):
    """Names of compressions on the command line."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Input(NamedTuple):
    """One record of the input; None for values that the producer chooses."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@app.command()
def produce(
    topic: Annotated[
        str, typer.Argument(help="The topic; it must exist.", autocompletion=topic_names)
    ],
    file: Annotated[
        Path | None, typer.Argument(help="Input file; stdin without one, or with '-'.")
    ] = None,
    input_format: Annotated[
        InputFormat, typer.Option("--format", "-f", help=FORMAT_HELP)
    ] = InputFormat.LINES,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", help="Splits a line into key and value."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Key of every record that has none of its own.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Default: by the key.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="On every record; repeatable."),
    ] = None,
    acks: Annotated[
        Acks, typer.Option("--acks", help="Which replicas must have a record before it counts.")
    ] = Acks.ALL,
    compression: Annotated[
        CompressionName, typer.Option("--compression", "-z", help="Of the batches.")
    ] = CompressionName.NONE,
    bootstrap: Bootstrap = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for scripts; input is --format's.")
    ] = False,
) -> None:
    """Write records to a topic, and print how many were written and where.

    Lines of a pipe are sent when it pauses, at the latest after a second.
    Ctrl-C and SIGTERM end the input: its records so far are written and counted.

    \b
    josefine produce orders events.jsonl --format json
    seq 100 | josefine produce orders
    """
    if key_separator is not None and (input_format is InputFormat.JSON or not key_separator):
        raise UsageError("--key-separator is only for --format lines")
    if key_separator is not None and key is not None:
        raise UsageError("--key and --key-separator are two ways to set the key: take one")
    parse = _with_key(_parser(input_format, key_separator), key)
    extra = parse_headers(header)
    with connect(bootstrap_of(bootstrap)) as client, _Source(file) as source, StopSignals() as stop:
        # Asked only for its error: an unknown topic is reported before the first input is read.
        partition_count(client, topic)
        producer = BlockingProducer(
            client,
            acks=ACKS_NUMBER[acks],
            compression=Compression[compression.name],
        )
        items = _with_progress(_read(source.stream, parse, stop.descriptor), source)
        _write_all(items, producer, topic, partition, extra)
    _report(topic, producer.delivered, as_json)
    if stop.number is not None:
        raise typer.Exit(EXIT_SIGNAL + stop.number)


def _write_all(
    items: Iterable[Input | None],
    producer: BlockingProducer,
    topic: str,
    partition: int | None,
    extra: Headers,
) -> None:
    """Send all records and wait for them. Errors include the number of written records."""
    largest = _Largest()
    try:
        try:
            _send_all(largest.watch(items), producer, topic, partition, extra)
        except UserError as error:
            producer.flush()
            raise type(error)(f"{error} ({_written(producer)} before it)") from error
        producer.flush()
    except KafkaError as error:
        where = f"; {largest}" if error.code is ErrorCode.message_too_large else ""
        raise KafkaError(error.code, f"{error.message}{where} ({_written(producer)})") from error


class _Largest:
    """The largest line so far: if any line is too large for the topic, this one is."""

    def __init__(self) -> None:
        self.line = 0
        self.size_bytes = -1

    def watch(self, items: Iterable[Input | None]) -> Iterator[Input | None]:
        """Pass the items through; each is one line of the input."""
        line = 0
        for item in items:
            if item is not None:
                line += 1
                size_bytes = len(item.key or b"") + len(item.value or b"")
                if size_bytes > self.size_bytes:
                    self.line, self.size_bytes = line, size_bytes
            yield item

    def __str__(self) -> str:
        return f"the largest record is line {self.line:,}, with {self.size_bytes:,} bytes"


def _send_all(
    items: Iterable[Input | None],
    producer: BlockingProducer,
    topic: str,
    partition: int | None,
    extra: Headers,
) -> None:
    """Hand every record to the producer; flush it when the input pauses."""
    for item in items:
        if item is None:
            producer.flush()
            continue
        where = item.partition if partition is None else partition
        headers = item.headers + extra
        producer.send(topic, item.key, item.value, headers, where, item.timestamp_ms)


class _Source:
    """The open input, its name and size."""

    def __init__(self, file: Path | None) -> None:
        self._file = None if file is None or str(file) == "-" else file
        self.name = str(self._file) if self._file else "stdin"
        self.size_bytes: int | None = None
        if self._file is None and sys.stdin is None:  # which typeshed does not know
            raise UserError("stdin is closed: name an input file")
        self.stream: BinaryIO = sys.stdin.buffer if self._file is None else io.BytesIO()

    def __enter__(self) -> _Source:
        if self._file is not None:
            self.stream = self._file.open("rb")
            self.size_bytes = os.fstat(self.stream.fileno()).st_size
        elif is_terminal(sys.stdin):
            note("one record per line; Ctrl-D ends the input")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self.stream.close()


def _read(stream: BinaryIO, parse: Callable[[bytes], Input], stop: int) -> Iterator[Input | None]:
    """Records of the input until `stop` is readable, and None when it pauses."""
    number = 0
    for line in lines_and_pauses(stream, stop):
        if line is None:
            yield None
            continue
        number += 1
        try:
            yield parse(line)
        except ValueError as error:
            raise UserError(f"line {number}: {error}") from error


def _with_progress(items: Iterable[Input | None], source: _Source) -> Iterator[Input | None]:
    """On a terminal, a progress bar of the file (or a count of stdin) on stderr."""
    if not is_terminal(sys.stderr) or source.stream.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(source.name),
        BarColumn(),
        TextColumn("{task.fields[count]:,} records"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(source.name, total=source.size_bytes, count=0)
        for count, item in enumerate(items, 1):
            yield item
            if count % PROGRESS_EVERY_RECORDS == 0:
                position = (
                    os.lseek(source.stream.fileno(), 0, os.SEEK_CUR) if source.size_bytes else 0
                )
                progress.update(task, completed=position, count=count)


def _parser(input_format: InputFormat, key_separator: str | None) -> Callable[[bytes], Input]:
    if input_format is InputFormat.JSON:
        return parse_json
    if key_separator is None:
        return lambda line: Input(value=line)
    separator = key_separator.encode().decode("unicode_escape").encode("latin-1")

    def parse(line: bytes) -> Input:
        key, found, value = line.partition(separator)
        if not found:
            raise ValueError(f"no key separator '{key_separator}'")
        return Input(key=key, value=value)

    return parse


def _with_key(parse: Callable[[bytes], Input], key: str | None) -> Callable[[bytes], Input]:
    if key is None:
        return parse
    given = key.encode()

    def with_key(line: bytes) -> Input:
        found = parse(line)
        return found if found.key is not None else found._replace(key=given)

    return with_key


def parse_json(line: bytes) -> Input:
    """One JSON object. Raises ValueError with the reason."""
    try:
        fields = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    allowed = {*JSON_FIELDS, *IGNORED_FIELDS, "key_base64", "value_base64"}
    unknown = sorted(fields.keys() - allowed)
    if unknown:
        raise ValueError(f"unknown field '{unknown[0]}': there are {', '.join(JSON_FIELDS)}")
    return Input(
        key=_bytes_of(fields, "key"),
        value=_bytes_of(fields, "value"),
        headers=_headers_of(fields.get("headers")),
        partition=_integer_of(fields, "partition"),
        timestamp_ms=_integer_of(fields, "timestamp_ms"),
    )


def _bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    """Text as UTF-8, null as null, `<name>_base64` decoded, any other JSON as compact JSON."""
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f"{name}_base64 is not valid base64") from error
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _headers_of(value: Any) -> Headers:
    """An object, or a list of {name, value | value_base64} that may repeat a name."""
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple((name, _bytes_of({"value": v}, "value")) for name, v in value.items())
    if isinstance(value, list) and all(isinstance(h, dict) and "name" in h for h in value):
        return tuple((str(h["name"]), _bytes_of(h, "value")) for h in value)
    raise ValueError("headers must be an object or a list of {name, value}")


def _integer_of(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number, at least 0")
    return value


def _written(producer: BlockingProducer) -> str:
    return f"{plural(_count(producer.delivered), 'record')} written"


def _count(delivered: dict[TopicPartition, Delivered]) -> int:
    return sum(d.record_count for d in delivered.values())


def _report(topic: str, delivered: dict[TopicPartition, Delivered], as_json: bool) -> None:
    rows = sorted(delivered.items())
    if as_json:
        partitions = [
            {
                "partition": tp.partition,
                "records": d.record_count,
                "first_offset": d.first_offset if d.first_offset >= 0 else None,
                "last_offset": d.last_offset if d.last_offset >= 0 else None,
            }
            for tp, d in rows
        ]
        print_json({"topic": topic, "records": _count(delivered), "partitions": partitions})
        return
    print(f"wrote {plural(_count(delivered), 'record')} to {topic}")
    for tp, d in rows:
        where = f"offsets {d.first_offset} to {d.last_offset}"
        if d.first_offset < 0 or d.last_offset < 0:
            where = "offsets unknown"
        print(f"  partition {tp.partition}: {plural(d.record_count, 'record')}, {where}")
