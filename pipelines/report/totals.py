"""Totals of a run per sink, and the check of the dead-letter threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base.errors import PipelineError, TooManyLettersError
from pipelines.model.dead_letter_threshold import Recent
from pipelines.model.pipeline import Pipeline
from pipelines.report.events import BatchDone
from pipelines.transforms.checks import Checked, added


@dataclass(slots=True, kw_only=True)
class SinkTotals:
    """The totals of one sink in this run, updated by each batch."""

    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    batches: int = 0
    seconds: float = 0.0
    ends: ByPartition = field(default_factory=dict)
    checked: dict[str, Checked] = field(default_factory=dict)
    copies: int = 0
    skipped: int = 0
    late: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run that ended by itself or (`interrupted`) on request. `failures`: sinks
    that failed for good while others may have continued; empty if none failed."""

    sinks: dict[str, SinkTotals]
    seconds: float
    interrupted: bool
    failures: Mapping[str, PipelineError] = field(default_factory=dict)


class Tally:
    """The totals of one run. Mutable: updated by the sinks' threads."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.totals = {name: SinkTotals() for name in pipeline.sinks}
        self._pipeline = pipeline
        self._recent: dict[str, Recent] = {}

    def count(self, done: BatchDone, seconds: float) -> None:
        """`seconds`: since the run's first query."""
        totals = self.totals[done.sink]
        totals.records += done.records
        totals.rows += done.rows
        totals.dead_letters += done.dead_letters
        totals.batches += 1
        totals.copies += done.copies
        totals.skipped += done.skipped
        totals.late += done.late
        if done.checked:
            totals.checked = added(totals.checked, done.checked)
        totals.seconds = seconds
        totals.ends = done.ends

    def judge(self, done: BatchDone) -> None:
        """Raise TooManyLettersError after a batch that exceeds the dead-letter threshold."""
        threshold = self._pipeline.threshold
        for source, (records, letters) in done.judged.items():
            if threshold is None or not records:
                continue
            recent = self._recent.setdefault(source, Recent(threshold))
            wrong = recent.batch(records, letters)
            if wrong:
                told = f"source `{source}`: {wrong}; see {self._pipeline.dead_letters}"
                raise TooManyLettersError(told)
