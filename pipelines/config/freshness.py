"""Reads a sink's `fresh` and `file`, and the interval of a run's batches that follows from them.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pipelines.config.keywords import WORDS
from pipelines.config.section import Reader
from pipelines.config.units import size_bytes
from pipelines.model.freshness import FILE_MIN_BYTES, FRESH_MIN_MS, interval_ms
from pipelines.model.pipeline import Sink


def with_targets(sink: Sink, reader: Reader) -> Sink:
    """The sink with `fresh` and `file` of its section."""
    fresh_ms = reader.duration_ms("fresh") if reader.has("fresh") else None
    if fresh_ms is not None and fresh_ms < FRESH_MIN_MS:
        message = (
            f"a batch with its commit takes about a second: expected {FRESH_MIN_MS // 1000}s "
            "at least"
        )
        reader.wrong_at("fresh", message)
        fresh_ms = None
    file_bytes = size_bytes(reader, "file")
    if file_bytes is not None and file_bytes < FILE_MIN_BYTES:
        reader.wrong_at("file", f"expected {FILE_MIN_BYTES >> 20}MB at least")
        file_bytes = None
    if reader.has("optimize"):
        for word in ("fresh", "file"):
            if reader.has(word):
                message = f"`{word}` decides when to compact: leave out `{word}` or `optimize`"
                reader.wrong_at(word, message)
                break
    return replace(sink, fresh_ms=fresh_ms, file_bytes=file_bytes)


def every_of(
    top: Reader, trigger: Reader | None, every_ms: int | None, sinks: Collection[Sink]
) -> int | None:
    """Milliseconds between two batches, None for a run with an end: `trigger.every`, or what
    follows from `fresh` without a `trigger`."""
    derived = interval_ms(sink.fresh_ms for sink in sinks)
    if trigger is None:
        said_badly = top.has("trigger")
        names_fresh = any(reader.has("fresh") for reader in _sections(top))
        if not said_badly and not names_fresh:
            message = f"`trigger` is missing; expected {WORDS['']['trigger'].expected}"
            top.problem(top.table.place, top.table.path, message, "trigger")
        return derived
    if trigger.has("every") and derived is not None:
        message = "the interval follows from `fresh` of a sink: leave out one of the two"
        trigger.wrong_at("every", message)
    return every_ms


def _sections(top: Reader) -> list[Reader]:
    # A second reader of the same sections: their problems are recorded already.
    return list(Reader(top.table, "", []).named_tables("sinks").values())
