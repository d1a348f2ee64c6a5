"""The rows that a batch begins with: its source's, or those that a state gave for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines import frames
from pipelines.decode import Reading
from pipelines.model import Transform
from pipelines.stateful import held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsIn:
    """`parsed`: the source's rows, where its bad records are looked at; `good`: those that are, or
    the rows of `node`; `kept`: in memory until `free`."""

    parsed: DataFrame | None
    good: DataFrame
    node: str | None = None
    kept: tuple[DataFrame, ...]

    def free(self) -> None:
        for each in self.kept:
            each.unpersist()


def rows_of_source(frame: DataFrame, reading: Reading | None, *, keeps: bool) -> RowsIn:
    """`keeps`: the batch is looked at several times (bad rows, good rows, counts): decode it
    once."""
    parsed = frames.parse(frame, reading)
    if keeps:
        parsed = parsed.persist()
    return RowsIn(parsed=parsed, good=frames.good_rows(parsed, reading), kept=(parsed,))


def rows_of_state(
    frame: DataFrame,
    stateful: Transform,
    read: Callable[[], DataFrame] | None,
    reading: Reading | None,
) -> RowsIn:
    """`read`: the batch's records once more, where its bad ones are looked at."""
    good = held(frame)
    if read is None:
        return RowsIn(parsed=None, good=good, node=stateful.name, kept=(good,))
    parsed = frames.parse(read(), reading).persist()
    return RowsIn(parsed=parsed, good=good, node=stateful.name, kept=(good, parsed))
