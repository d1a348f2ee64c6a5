"""Records that have tripped clients and brokers before: nulls, empties, bytes, repeated headers."""

from __future__ import annotations

from typing import NamedTuple

BASE_MS = 1_700_000_000_000


class Sample(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = BASE_MS


SAMPLES = (
    Sample(b"key", b"value"),
    Sample(None, b"no key", (), BASE_MS + 1),
    Sample(b"no value", None, (), BASE_MS + 2),
    Sample(None, None, (), BASE_MS + 3),
    Sample(b"", b"", (), BASE_MS + 4),
    Sample(bytes(range(256)), bytes(reversed(range(256))), (), BASE_MS + 5),
    Sample("schlüssel".encode(), "値 🦊".encode(), (("größe", "ü".encode()),), BASE_MS + 6),
    Sample(b"h", b"repeated", (("a", b"1"), ("a", b"2"), ("b", b""), ("c", None)), BASE_MS + 7),
    Sample(b"long", b"x" * 70_000, (), BASE_MS + 8),
    Sample(b"behind", b"an earlier time", (), BASE_MS - 1_000),
)

PYTHON_SAMPLES = tuple(
    s._replace(headers=tuple(h for h in s.headers if h[1] is not None))
    for s in SAMPLES
    if (s.key, s.value) != (None, None)
)
"""kafka-python and aiokafka refuse by themselves: neither key nor value, and null header values."""

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

FIVE_MEGABYTES = 5 * 1024 * 1024
LARGE_CONFIG = {"max_message_bytes": str(6 * 1024 * 1024)}
