"""The output of consumed records, one line each.

Rules: bytes are written unchanged to files and pipes, and escaped on a terminal; control batches
are not shown; the error of a damaged batch names its partition.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

from josefine_broker.base.errors import CorruptData, UnreadableBatchError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import Positions, records_between
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.records.builder import Record
from josefine_cli.base.errors import UserError
from josefine_cli.base.output import iso_time, printable, put_bytes
from josefine_cli.kafka.record_template import Part

FETCH_WAIT_MS = 500
FETCH_BYTES_MAX = 4 * 1024 * 1024

Write = Callable[[TopicPartition, Record], None]


class OutputFormat(StrEnum):
    """The format of an output line."""

    VALUE = "value"
    KEY_VALUE = "key-value"
    JSON = "json"
    FULL = "full"


@contextlib.contextmanager
def named_when_damaged(tp: TopicPartition) -> Iterator[None]:
    """Add the partition to the error of a damaged batch, and the command that skips a batch that
    was produced broken, or the one that finds the place in the files."""
    try:
        yield
    except UnreadableBatchError as error:
        raise UserError(
            f"{tp} at offset {error.offset}: {error}; its checksum is right, so it was produced"
            f" like this, and every reader fails here. To skip it: josefine consume {tp.topic}"
            f" --partitions {tp.partition} --from {error.end_offset}"
        ) from error
    except CorruptData as error:
        raise UserError(
            f"partition {tp} is damaged: {error}; "
            "'josefine log verify' finds the place once the broker is stopped"
        ) from error


def records_of(
    tp: TopicPartition, part: FetchedPartition, positions: Positions
) -> Iterator[Record]:
    """The records from the partition's position to its end."""
    begin = positions.position(tp)
    assert begin is not None, tp
    return records_between(part.records, begin, positions.end_offset(tp))


Decoded = Callable[[TopicPartition, Record], str | None]
"""The JSON text of a record's value; None: it has none, which was reported."""


def writer(
    output_format: OutputFormat | Part, decoded: Decoded | None = None, *, with_topic: bool = False
) -> Write:
    """A writer of a format or a template: unchanged bytes to files and pipes; no control characters
    to a terminal. `decoded` is printed in place of the value; `with_topic`: a full line names it.
    """
    write = _writer(output_format, decoded, with_topic)
    if decoded is None:
        return write

    def write_decoded(tp: TopicPartition, record: Record) -> None:
        text = None if record.value is None else decoded(tp, record)
        if text is not None or record.value is None:
            write(tp, record._replace(value=None if text is None else text.encode()))

    return write_decoded


def _writer(output_format: OutputFormat | Part, decoded: Decoded | None, with_topic: bool) -> Write:
    out = sys.stdout.buffer if hasattr(sys.stdout, "buffer") else None
    is_terminal = sys.stdout.isatty() or out is None

    def raw(data: bytes | None) -> bytes:
        return printable(data).encode() if is_terminal else (data or b"")

    def put(line: bytes) -> None:
        if out is None:
            print(line.decode())
        else:
            out.write(line + b"\n")

    if not isinstance(output_format, OutputFormat):
        template = output_format
        return lambda tp, r: put(template(tp, r, raw))
    writers: dict[OutputFormat, Write] = {
        OutputFormat.VALUE: lambda tp, r: put(raw(r.value)),
        OutputFormat.KEY_VALUE: lambda tp, r: put(raw(r.key) + b"\t" + raw(r.value)),
        OutputFormat.JSON: lambda tp, r: put(
            _object_text(tp, r, is_json=decoded is not None).encode("utf-8", "surrogatepass")
        ),
        OutputFormat.FULL: lambda tp, r: put(
            (f"{tp.topic}-" if with_topic else "").encode() + _full(tp, r).encode()
        ),
    }
    return writers[output_format]


def _object_text(tp: TopicPartition, record: Record, *, is_json: bool) -> str:
    """`is_json`: the value is JSON and becomes a part of the object, with all its digits."""
    if not is_json or record.value is None:
        return json.dumps(as_object(tp, record), ensure_ascii=False)
    rest = as_object(tp, record._replace(value=None))
    rest = {name: value for name, value in rest.items() if name != "value"}
    return f'{json.dumps(rest, ensure_ascii=False)[:-1]}, "value": {record.value.decode()}}}'


def as_object(tp: TopicPartition, record: Record) -> dict[str, Any]:
    """A record as JSON, in the format that `josefine produce --format json` reads."""
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
