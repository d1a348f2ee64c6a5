"""The message about the first record on which an expression of the file fails.

Spark's error has the expression and a value, but not the record. The batch's good rows are cached,
and the sink's steps are computed again, of fewer records each time (`dead_letters/record_search`).
Nothing here runs, or is imported, in a batch that does not fail.

Windows and joins are computed of the batch's records alone, without the state. What fails only with
rows of earlier batches, or in the table (a constraint), is not found here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipelines.base.errors import RunError
from pipelines.dead_letters.left_out import RECORDS_MAX, FailedRecord, LeftOut, joined
from pipelines.dead_letters.record_search import (
    RecordSearch,
    TooManyError,
    is_of_a_row,
    only,
)
from pipelines.dead_letters.sink_steps import FailedRecords, SinkStep, SinkSteps, reason_of
from pipelines.formats.decode import headers_of
from pipelines.model.pipeline import OnError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.dead_letters.record_search import Failure, Good

PROBES_MAX = 256
"""Enough for halves of 2^40 offsets in 2^20 partitions, of several steps; each probe is a job over
cached rows."""

_ADVICE = re.compile(r"Use `[^`]+` to [^.]+")


def failed_record(steps: SinkSteps, good: Good, error: Exception) -> str | None:
    """The message that names the record, the expression and its place in the file; None if each
    step of the sink can be computed, or if another error stops the search."""
    if not is_of_a_row(error):
        return None
    with _kept(good) as kept:
        search = RecordSearch(kept, PROBES_MAX)
        for step in steps.own():
            found = search.first(step.compute)
            if found is not None:
                return _message(steps, step, kept, found)
    return None


def left_out(
    steps: SinkSteps, good: Good, error: Exception, known: Sequence[FailedRecord]
) -> LeftOut | None:
    """The records without which each step of the sink can be computed, `known` among them; without
    `on_error: dead_letter` only those for the checks of other sinks. None if there are none.
    `error`: that of a value. Raises RunError."""
    with _kept(good) as kept:
        search = FailedRecords(steps, kept, RECORDS_MAX)
        try:
            leaves_out = steps.sink.sink.on_error is OnError.DEAD_LETTER
            found = search.of_rows(known) if leaves_out else []
            of_checks = search.of_checks()
        except TooManyError as many:
            topic, partition, offset = many.first[0]
            first = f"{topic}-{partition} offset {offset}"
            raise RunError(
                f"sink `{steps.sink.name}`: an expression fails for more than {RECORDS_MAX:,} "
                f"records of this batch (the first one is {first}); nothing of it was written. "
                "`on_error: dead_letter` leaves out no more: correct the expression, or take such "
                "records out with a check"
            ) from error
    if not (known or found or any(of_checks.values())):
        return None
    return LeftOut(records=joined(known, found), of_checks=of_checks)


def letters_of(
    frame: DataFrame, records: Sequence[FailedRecord], source: str, sink: str
) -> DataFrame:
    """The dead letters of some records. `frame`: the micro-batch as it was read."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = [(*each.place, each.reason, each.stage) for each in records]
    kinds = "topic STRING, partition INT, offset BIGINT, reason STRING, stage STRING"
    found = F.broadcast(frame.sparkSession.createDataFrame(rows, kinds))
    return frame.join(found, ["topic", "partition", "offset"]).select(
        F.lit(source).alias("source"),
        *["topic", "partition", "offset", "timestamp", "reason", "key", "value"],
        *headers_of(frame),
        F.lit(sink).alias("sink"),
        "stage",
    )


@contextmanager
def _kept(good: Good) -> Iterator[Good]:
    """The rows, cached within."""
    named: Mapping[str, DataFrame] = good if isinstance(good, Mapping) else {"": good}
    kept = {name: rows.persist() for name, rows in named.items()}
    try:
        yield kept if isinstance(good, Mapping) else kept[""]
    finally:
        for rows in kept.values():
            rows.unpersist()


def _message(steps: SinkSteps, step: SinkStep, good: Good, found: Failure) -> str:
    place, failure = found
    named = steps.named(failure)
    if named is None:
        named = steps.column(step, good if step.combines else only(good, place))
    what = f"{named.place}: {named.text}" if named else step.path
    advice = _ADVICE.search(" ".join(str(failure).split()))
    return (
        f"{what} fails for {place[0]}-{place[1]} offset {place[2]}: "
        f"{reason_of(failure, named)}; nothing of this batch was written"
        f"{f'. {advice[0]}' if advice else ''}"
    )
