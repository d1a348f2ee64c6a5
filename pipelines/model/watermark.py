"""What a transform with state is told of the time of its inputs' rows: a value."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.base.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Rows of `input` that are more than `delay_ms` older by `column` than its newest are late."""

    input: str
    column: str
    delay_ms: int
    place: Place
    """Of the column."""
    path: str
