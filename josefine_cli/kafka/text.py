"""`josefine text`: a client of the text protocol, which sends lines to a broker and prints replies.

Rules: each line has one reply, in order. In a terminal a line is sent when it is entered; otherwise
available lines are sent together, up to a limit, and a refused line makes the exit code 1. Replies
go to stdout unchanged. The end of the input closes the connection; a subscription of `SUBS` lasts
until `DISC`, `UNSUBS` or its timeout.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import sys
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import typer

from josefine_broker.base.addresses import parse_host_port
from josefine_broker.base.tls_files import reason_of
from josefine_cli.base.client_config import tls_context
from josefine_cli.base.errors import EXIT_FAILURE, UsageError, UserError
from josefine_cli.base.output import is_terminal, note, plural, printable
from josefine_cli.base.waiting import waits
from josefine_cli.kafka.lines import lines_and_pauses

app = typer.Typer(
    help="Send lines of the text protocol to a broker.",
    add_completion=False,
    rich_markup_mode=None,
)

DEFAULT_ADDRESS = "127.0.0.1:9392"
CONNECT_S = 5.0
TOGETHER_LINES, TOGETHER_BYTES = 200, 32 * 1024
"""Limits of lines sent before their replies are read: they fit the socket buffers, so the two sides
cannot block each other."""
PROMPT = "> "
DONE, DATA = b"Done", b'{"Ok":true'
"""Any other reply is an error."""


@app.command()
def text(
    address: Annotated[
        str, typer.Argument(help="A broker's text listener, host:port.")
    ] = DEFAULT_ADDRESS,
    tls: Annotated[
        bool,
        typer.Option(
            "--tls", help="Speak TLS (the broker's text.tls), by the ssl.* of --client-config."
        ),
    ] = False,
) -> None:
    """Send lines to a broker's text listener, and print the reply to each.

    \b
    josefine text                       # a prompt: CRTP, PUBS, SUBS, CONS, UNSUBS, DISC
    printf 'CRTP t\\nPUBS t {}\\n' | josefine text 127.0.0.1:9392
    """
    if sys.stdin is None:
        raise UserError("stdin is closed: there are no lines to send")
    if sys.stdout is None:
        raise UserError("stdout is closed: there is nowhere to print replies to")
    with _connect(address, tls_context(os.environ, address) if tls else None) as connection:
        talk = Talk(connection, address)
        if is_terminal(sys.stdin) and is_terminal(sys.stdout):
            _prompt(talk)
        elif refused := _pipe(talk, sys.stdin.buffer):
            note(f"{plural(refused, 'line')} refused")
            raise typer.Exit(EXIT_FAILURE)


class Talk:
    """One connection. Mutable: it buffers replies."""

    def __init__(self, connection: socket.socket, address: str) -> None:
        self._connection = connection
        self._replies = connection.makefile("rb")
        self._address = address
        self._has_replied = False

    def say(self, lines: list[bytes]) -> Iterator[bytes]:
        """Send lines; yields the reply to each. Raises UserError if the broker is unreachable."""
        with self._named(), waits(lambda: f"{self._address} to read lines"):
            self._connection.sendall(b"".join(line + b"\n" for line in lines))
        for _ in lines:
            with self._named(), waits(lambda: f"a reply of {self._address}"):
                reply = self._replies.readline()
            if not reply.endswith(b"\n"):
                raise UserError(f"{self._address} closed the connection{self._hint()}")
            self._has_replied = True
            yield reply.rstrip(b"\r\n")

    def _hint(self) -> str:
        if self._has_replied or isinstance(self._connection, ssl.SSLSocket):
            return ""
        return "; if it speaks TLS (text.tls), add --tls"

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except ssl.SSLError as error:
            raise UserError(f"{self._address} hung up: {reason_of(error)}") from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(f"{self._address} is gone: {reason}{self._hint()}") from error


def _connect(address: str, tls: ssl.SSLContext | None) -> socket.socket:
    """Connect. Raises UsageError for a malformed address, UserError if no text listener answers."""
    try:
        host, port = parse_host_port(address)
    except ValueError as error:
        raise UsageError(str(error)) from error
    try:
        with waits(lambda: f"a connection to {address}"):
            connection = socket.create_connection((host, port), CONNECT_S)
            if tls is not None:
                connection = tls.wrap_socket(connection, server_hostname=host)
    except ssl.SSLError as error:
        raise UserError(f"no TLS with {address}: {reason_of(error)}") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"no text listener answers at {address}: {reason}; a broker has one if its file"
            f" has 'text: {{ port: {port} }}'"
        ) from error
    connection.settimeout(None)
    return connection


def _prompt(talk: Talk) -> None:
    """Until Ctrl-D, Ctrl-C or DISC."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives `input` a history
    while True:
        try:
            line = input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not line.strip():
            continue
        (reply,) = talk.say([line.encode("utf-8", "surrogateescape")])
        print(printable(reply))
        if line.strip().upper() == "DISC":
            return


def _pipe(talk: Talk, stream: BinaryIO) -> int:
    """Send all lines of a stream; returns how many were refused."""
    refused = 0
    for lines in _together(stream):
        for reply in talk.say(lines):
            refused += reply != DONE and not reply.startswith(DATA)
            sys.stdout.buffer.write(reply + b"\n")
        sys.stdout.buffer.flush()
    return refused


def _together(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Groups of lines that arrived before a pause of the input, bounded."""
    lines: list[bytes] = []
    size = 0
    for line in lines_and_pauses(stream):
        if line is not None:
            lines.append(line)
            size += len(line) + 1
        is_last = line is not None and line.strip().upper() == b"DISC"
        is_full = len(lines) == TOGETHER_LINES or size > TOGETHER_BYTES
        if lines and (line is None or is_last or is_full):
            yield lines
            lines, size = [], 0
        if is_last:
            return
    if lines:
        yield lines
