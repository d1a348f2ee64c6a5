"""How results are shown: rich tables for people, JSON for scripts, bytes made safe.

Rules: results go to stdout, everything else (progress, notes, questions) to stderr; with `--json`
stdout holds JSON only; bytes that are not printable text are escaped on a terminal and are
base64 in JSON, where the field's name says so.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import IO, Any

from josefine_broker.client.io_blocking import BlockingClient, Policy
from josefine_cli.errors import UsageError
from josefine_cli.waiting import waits

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_HELP = "Broker addresses, host:port[,host:port …]."
JSON_HELP = "Print JSON for scripts."

TABLE_WIDTH_MAX = 10_000
"""Columns are as wide as what they hold; nothing is cut before this."""
PATIENCE = Policy(bootstrap_timeout_ms=2_000, unknown_topic_timeout_ms=500)
"""A person waits; a wrong address should be told at once, a broker just starting still be found."""


def connect(bootstrap: str) -> BlockingClient:
    """A client with the patience of a person. Raises UsageError for a malformed address."""
    _check_addresses(bootstrap)
    try:
        return BlockingClient(bootstrap, client_id="josefine-cli", policy=PATIENCE, watch=waits)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _check_addresses(bootstrap: str) -> None:
    """The mistakes of people that the client would only call no address."""
    for address in bootstrap.split(","):
        scheme, found, rest = address.strip().partition("://")
        if found:
            raise UsageError(f"'{address.strip()}' has a scheme: drop '{scheme}://', say '{rest}'")
        host, _, port = scheme.rpartition(":")
        if host and port.isdecimal() and not 0 < int(port) < 65_536:
            raise UsageError(f"port {port} of '{scheme}' is out of range: it is 1 to 65535")


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, ensure_ascii=False))


def note(text: str) -> None:
    """A remark on stderr, out of the way of results."""
    print(text, file=sys.stderr)


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether a person is there; a stream is None when whoever started this closed it."""
    return stream is not None and stream.isatty()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """A table for people; numbers to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", header_style="bold", box=None)
    shown = [list(row) for row in rows]
    for number, column in enumerate(columns):
        is_number = bool(shown) and all(isinstance(row[number], int) for row in shown)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True)
    for row in shown:
        table.add_row(*(Text(f"{v:,}" if isinstance(v, int) else str(v)) for v in row))
    # A row is a line, whatever is there to show it: a name that is broken cannot be copied.
    Console(highlight=False, width=TABLE_WIDTH_MAX).print(table)


def plural(count: int, noun: str, ending: str = "s") -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{ending}"


def printable(data: bytes | None) -> str:
    """Bytes for a terminal: text as it is, control characters and stray bytes escaped."""
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def put_bytes(target: dict[str, Any], name: str, data: bytes | None) -> None:
    """`name` as text or null, or `name_base64` when the bytes are no UTF-8."""
    if data is None:
        target[name] = None
        return
    try:
        target[name] = data.decode()
    except UnicodeDecodeError:
        target[f"{name}_base64"] = base64.b64encode(data).decode()


def iso_time(timestamp_ms: int) -> str | None:
    """UTC with milliseconds, or None for "no timestamp" and years that no calendar has."""
    if timestamp_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
