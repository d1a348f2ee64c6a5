"""Lines of an input as they come, and a sign when it pauses.

A pipe may give a line a minute: whoever collects lines into batches wants to know that no more is
there now. Rules: lines come without their newline, the last one also when it had none; memory
holds one line and one read.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Iterator
from typing import BinaryIO

READ_BYTES = 64 * 1024
PAUSE_SECONDS = 0.1
"""Longer without input is a pause: short for a person, long for a batch."""


def lines_and_pauses(stream: BinaryIO) -> Iterator[bytes | None]:
    """Each line of `stream`, and None once whenever no input came for PAUSE_SECONDS."""
    try:
        descriptor = stream.fileno()
    except (OSError, io.UnsupportedOperation):
        yield from _lines(stream)
        return
    rest: list[bytes] = []
    has_paused = True
    while True:
        if not has_paused and not select.select([descriptor], [], [], PAUSE_SECONDS)[0]:
            has_paused = True
            yield None
        chunk = os.read(descriptor, READ_BYTES)
        if not chunk:
            break
        has_paused = False
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            rest = [others.pop()]
            yield from others
    if any(rest):
        yield b"".join(rest)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Of a stream in memory, which never pauses."""
    for line in stream:
        yield line[:-1] if line.endswith(b"\n") else line
