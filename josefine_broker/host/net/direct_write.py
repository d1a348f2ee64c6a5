"""Writes to a client's socket past the queue of its transport.

uvloop sends what a transport was given after the callbacks of the turn: the work that a callback
does after an answer then delays it. Nothing is sent before what the transport still has.
"""

from __future__ import annotations

import asyncio
import os


def descriptor_of(transport: asyncio.BaseTransport) -> int:
    """Of the socket. Use it only while the transport is open: later it may be another one's."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())


def write_now(transport: asyncio.Transport, descriptor: int, data: bytes) -> None:
    """Send `data` at once, as far as the socket takes it; the transport sends the rest."""
    try:
        sent = 0 if transport.get_write_buffer_size() else os.write(descriptor, data)
    except OSError:
        sent = 0  # the transport meets it, too: it waits, or ends the connection
    if sent < len(data):
        transport.write(data[sent:])
