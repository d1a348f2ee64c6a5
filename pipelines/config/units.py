"""Values with a unit: times, sizes, batch counts, pauses."""

from __future__ import annotations

import re

from josefine_broker.base.moments import moment_ms
from pipelines.config.keywords import WORDS
from pipelines.config.section import LONG_MAX, UNIT_MS, Reader

_BATCHES = re.compile(r"(\d{1,9}) batch(?:es)?")
_PAUSES = re.compile(r"(\d{1,9})(ms|s|m|h)(?:\.\.(\d{1,9})(ms|s|m|h))?")
_SIZE = re.compile(r"(\d{1,15})([kmg]i?b?|b)?", re.IGNORECASE)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def time_ms(reader: Reader, key: str) -> int | None:
    """A time in milliseconds since 1970; None if there is no valid one."""
    text = reader.text(key) if reader.has(key) else None
    found = moment_ms(text) if text else None
    if text and found is None:
        _wrong(reader, key, text)
    return found


def size_bytes(reader: Reader, key: str) -> int | None:
    """A size above 0 in bytes: `1048576`, `64MiB`, `64MB`, `64m`, by powers of 1024."""
    text = reader.text(key) if reader.has(key) else None
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * _UNITS[(match[2] or "b")[0].lower()] if match else 0
    if not 0 < size <= LONG_MAX:
        _wrong(reader, key, text)
        return None
    return size


def batches(reader: Reader, key: str) -> int | None:
    """A number of batches above 0: `1 batch`, `100 batches`."""
    text = reader.text(key)
    if text is None:
        return None
    match = _BATCHES.fullmatch(text)
    count = int(match[1]) if match else 0
    if count == 0:
        _wrong(reader, key, text)
    return count or None


def pauses_ms(reader: Reader, key: str) -> tuple[int, int] | None:
    """The first pause and the longest: `5s`, `1s..60s`."""
    text = reader.text(key) if reader.has(key) else None
    if text is None:
        return None
    match = _PAUSES.fullmatch(text)
    first = int(match[1]) * UNIT_MS[match[2]] if match else 0
    last = int(match[3]) * UNIT_MS[match[4]] if match and match[3] else first
    if not 0 < first <= last:
        _wrong(reader, key, text)
        return None
    return first, last


def _wrong(reader: Reader, key: str, text: str) -> None:
    reader.wrong_at(key, f"expected {WORDS[reader.section][key].expected}; found `{text}`")
