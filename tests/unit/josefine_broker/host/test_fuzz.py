"""Noise in the shape of requests, through every decoder and handler: only answers or disconnects.

A short run by default; `JOSEFINE_FUZZ_SECONDS=600` is the long proof. A failure prints the seed and
the frame that replays it.
"""

from __future__ import annotations

import logging
import os
import struct
import time
from random import Random

import pytest

from josefine_broker.api.table import API_VERSIONS, SERVED
from josefine_broker.compose.routes import routes
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import DisconnectError, Dispatcher, Peer
from josefine_broker.wire.apis import is_flexible
from tests.unit.josefine_broker.api.world import LISTENER, World

SECONDS = float(os.environ.get("JOSEFINE_FUZZ_SECONDS", "2"))
SEED = int(os.environ.get("JOSEFINE_FUZZ_SEED", "20260731"))
FRAMES_PER_CLOCK_READING = 500
FRAMES_MIN = 2_000
"""However long a busy machine takes for them."""
SPECS = [api.spec for api in SERVED.values()]

PIECES = (
    b"\0\0\0\1",  # an array of one
    b"\0\x06orders",
    b"\x07orders",  # the same, compact
    b"\2",  # a compact array of one
    b"\1\2\0",
    b"\xff" * 2,  # a null string
    b"\xff" * 4,  # a null array, -1
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",  # more elements than there are bytes
    b"\0" * 4,
    b"\0",
)


def noise(rng: Random) -> bytes:
    """A body of plausible pieces: pure noise rarely gets past the first length."""
    parts = []
    for _ in range(rng.randrange(1, 14)):
        choice = rng.randrange(len(PIECES) + 2)
        if choice < len(PIECES):
            parts.append(PIECES[choice])
        elif choice == len(PIECES):
            parts.append(struct.pack(">i", rng.randrange(-2, 5)))
        else:
            parts.append(rng.randbytes(rng.randrange(8)))
    return b"".join(parts)


def frame(rng: Random) -> bytes:
    """A whole request of a served key and version, its body noise."""
    api = rng.choice(SPECS)
    version = rng.randrange(api.min_version, api.max_version + 1)
    header = struct.pack(">hhih", api.key, version, rng.randrange(2**31), -1)
    return header + (b"\0" if is_flexible(api.key, version) else b"") + noise(rng)


def test_noise_is_answered_or_disconnected_and_never_fails_a_handler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Checklist row 96, the wire's part."""
    world = World()
    world.create("orders", partitions=2)
    metrics, rng = Metrics(), Random(SEED)
    dispatcher = Dispatcher(
        routes(world.ctx, metrics),
        API_VERSIONS.unsupported_version,
        metrics.connections,
    )
    peer = Peer(listener=LISTENER, address="fuzz")
    answered, frames, sent = 0, 0, b""
    deadline = time.monotonic() + SECONDS
    with caplog.at_level(logging.ERROR):
        while (time.monotonic() < deadline or frames < FRAMES_MIN) and not caplog.records:
            for _ in range(FRAMES_PER_CLOCK_READING):
                frames += 1
                sent = frame(rng)
                try:
                    dispatcher.serve(memoryview(bytearray(sent)), peer)
                    answered += 1
                except DisconnectError:
                    pass
                if caplog.records:
                    break
    assert not caplog.records, f"seed {SEED}, frame {sent.hex()}: {caplog.text}"
    assert answered > 100, "the noise never gets past the decoders"
