"""The lines of an input as they arrive, with a marker for each pause.

A pipe may deliver a line per minute: a caller that collects lines into batches must know when no
more are available, or when the oldest one has waited for long. Rules: lines come without their
newline, and the last one needs none; memory holds one line and one read; a stop ends the input
after the lines that were read.
"""

from __future__ import annotations

import io
import os
import select
import time
from collections.abc import Iterator
from typing import BinaryIO

READ_BYTES = 64 * 1024
PAUSE_SECONDS = 0.1
"""Time without input that counts as a pause: short for a person, long for a batch."""
WAIT_SECONDS_MAX = 1.0
"""The longest time that a line waits for a pause, when lines arrive slowly but without one."""


def lines_and_pauses(stream: BinaryIO, stop: int | None = None) -> Iterator[bytes | None]:
    """Each line of `stream`; None after PAUSE_SECONDS without input or when lines wait for long.

    `stop` is a descriptor: once it is readable, nothing more is read and a partial line is dropped.
    """
    try:
        descriptor = stream.fileno()
    except (OSError, io.UnsupportedOperation):
        yield from _lines(stream)
        return
    rest: list[bytes] = []
    oldest: float | None = None
    while True:
        ready = _ready(descriptor, stop, oldest)
        if stop in ready:
            return
        if not ready:
            oldest = None
            yield None
            continue
        chunk = os.read(descriptor, READ_BYTES)
        if not chunk:
            break
        # `oldest` starts with the first chunk after a pause, so that slow lines do not wait for
        # ever for a pause that never comes.
        oldest = time.monotonic() if oldest is None else oldest
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            rest = [others.pop()]
            yield from others
    if any(rest):
        yield b"".join(rest)


def _ready(descriptor: int, stop: int | None, oldest: float | None) -> list[int]:
    """The readable descriptors; none when the line of the time `oldest` should wait no longer."""
    watched = [descriptor] if stop is None else [descriptor, stop]
    if oldest is None:
        return select.select(watched, [], [])[0]
    left = oldest + WAIT_SECONDS_MAX - time.monotonic()
    return select.select(watched, [], [], min(PAUSE_SECONDS, left))[0] if left > 0 else []


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of an in-memory stream, which never pauses."""
    for line in stream:
        yield line[:-1] if line.endswith(b"\n") else line
