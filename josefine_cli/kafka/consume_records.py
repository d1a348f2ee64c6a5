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


def writer(output_format: OutputFormat) -> Write:
    """A writer: unchanged bytes to files and pipes; no control characters to a terminal."""
    out = sys.stdout.buffer if hasattr(sys.stdout, "buffer") else None
    is_terminal = sys.stdout.isatty() or out is None

    def raw(data: bytes | None) -> bytes:
        return printable(data).encode() if is_terminal else (data or b"")

    def put(line: bytes) -> None:
        if out is None:
            print(line.decode())
        else:
            out.write(line + b"\n")

    writers: dict[OutputFormat, Write] = {
        OutputFormat.VALUE: lambda tp, r: put(raw(r.value)),
        OutputFormat.KEY_VALUE: lambda tp, r: put(raw(r.key) + b"\t" + raw(r.value)),
        OutputFormat.JSON: lambda tp, r: put(
            json.dumps(as_object(tp, r), ensure_ascii=False).encode("utf-8", "surrogatepass")
        ),
        OutputFormat.FULL: lambda tp, r: put(_full(tp, r).encode()),
    }
    return writers[output_format]


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
