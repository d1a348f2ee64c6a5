"""A watermark of a stateful transform's input."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.base.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Rows of `input` whose `column` is more than `delay_ms` before the newest one are late."""

    input: str
    column: str
    delay_ms: int
    place: Place
    """The place of the column."""
    path: str
