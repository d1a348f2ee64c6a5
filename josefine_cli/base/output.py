"""The output of results: tables for people, JSON for scripts, escaped bytes.

Rules: results go to stdout, everything else (progress, notes, questions) to stderr; with `--json`
or `--output` stdout has only that; bytes that are not printable text are escaped on a terminal and
base64 in JSON, in a field named accordingly.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import typer

from josefine_broker.client.cluster import parse_bootstrap
from josefine_broker.client.io_blocking import BlockingClient, Policy
from josefine_cli.base.client_config import configured_security
from josefine_cli.base.errors import UsageError
from josefine_cli.base.rendering import render
from josefine_cli.base.waiting import waits

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_HELP = "Broker addresses, host:port[,host:port …]."
JSON_HELP = "Print JSON for scripts."

TABLE_WIDTH_MAX = 10_000
"""Columns are as wide as their content; only wider tables are cut."""
PATIENCE = Policy(bootstrap_timeout_ms=2_000, unknown_topic_timeout_ms=500)
"""Timeouts for interactive use: a wrong address is reported quickly, and a broker that is just
starting is still found."""


def connect(bootstrap: str, policy: Policy | None = None) -> BlockingClient:
    """A client with PATIENCE or another policy. Raises UsageError for a malformed address."""
    where = checked_addresses(bootstrap)
    return BlockingClient(
        where,
        client_id="josefine-cli",
        policy=policy or PATIENCE,
        watch=waits,
        security=configured_security(os.environ, where),
    )


def checked_addresses(bootstrap: str) -> str:
    """The unchanged text. Raises UsageError for a malformed address, with a clear message."""
    _check_mistakes(bootstrap)
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return bootstrap


def _check_mistakes(bootstrap: str) -> None:
    """Raises UsageError for common mistakes, for which the client has only a generic message."""
    for address in bootstrap.split(","):
        scheme, found, rest = address.strip().partition("://")
        if found:
            raise UsageError(f"'{address.strip()}' has a scheme: drop '{scheme}://', use '{rest}'")
        host, _, port = scheme.rpartition(":")
        if host and port.isdecimal() and not 0 < int(port) < 65_536:
            raise UsageError(f"port {port} of '{scheme}' is out of range: expected 1 to 65535")


def print_json(value: Any) -> None:
    """Print one document to stdout: JSON, or YAML with `--output yaml`."""
    render(value)


def note(text: str) -> None:
    """Print a remark to stderr, separate from results."""
    print(text, file=sys.stderr)


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether a stream is interactive; it is None if the parent process closed it."""
    return stream is not None and stream.isatty()


def agree(question: str, yes: bool, doing: str) -> None:
    """Ask for confirmation unless `yes`. Raises UsageError without a terminal, Abort for a no."""
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise UsageError(f"{doing} without a terminal to ask on needs --yes")
    typer.confirm(question, abort=True, err=True)


def parse_headers(pairs: Sequence[str] | None) -> tuple[tuple[str, bytes | None], ...]:
    """`NAME=VALUE` of the command line. Raises UsageError."""
    headers = []
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise UsageError(f"--header '{pair}' is not NAME=VALUE")
        headers.append((name, value.encode()))
    return tuple(headers)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """Print a table to stdout."""
    from rich.console import Console

    # A row is one line even on a narrow terminal: a wrapped name could not be copied.
    console = Console(highlight=False, width=TABLE_WIDTH_MAX)
    console.print(table_of(columns, rows, title))


def table_of(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> Table:
    """A table with right-aligned numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", header_style="bold", box=None)
    shown = [list(row) for row in rows]
    for number, column in enumerate(columns):
        is_number = bool(shown) and all(isinstance(row[number], int) for row in shown)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True)
    for row in shown:
        table.add_row(*(Text(f"{v:,}" if isinstance(v, int) else str(v)) for v in row))
    return table


def plural(count: int, noun: str, ending: str = "s") -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{ending}"


def printable(data: bytes | None) -> str:
    """Bytes for a terminal: text unchanged, control characters and invalid bytes escaped."""
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def put_bytes(target: dict[str, Any], name: str, data: bytes | None) -> None:
    """Set `name` to text or null, or `name_base64` if the bytes are not valid UTF-8."""
    if data is None:
        target[name] = None
        return
    try:
        target[name] = data.decode()
    except UnicodeDecodeError:
        target[f"{name}_base64"] = base64.b64encode(data).decode()


def iso_time(timestamp_ms: int) -> str | None:
    """UTC with milliseconds, or None for "no timestamp" and years outside of the calendar."""
    if timestamp_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
