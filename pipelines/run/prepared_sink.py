"""A sink that is ready for micro-batches: its target open, its start offsets settled.

`BatchReader` is the port that makes the rows of a micro-batch: Spark in a run, lists in unit tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.dead_letters.left_out import NOTHING_LEFT_OUT, FailedRecord, LeftOut
from pipelines.dead_letters.writer import Letters, SinkLetters
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.data_loss import LostRange
from pipelines.exactly_once.offset_chain import Batch, Commit, together
from pipelines.model.pipeline import Source
from pipelines.model.plan import SinkPlan
from pipelines.run.consumer_group_offsets import Advice
from pipelines.sinks.delta_maintenance import Keeper
from pipelines.sinks.target import OpenTarget
from pipelines.sources.josefine import Topics
from pipelines.transforms.checks import Checked
from pipelines.transforms.deduplicate import Span


class BatchRows(Protocol):
    """The rows of a micro-batch."""

    @property
    def bad(self) -> int | None:
        """The number of records that do not fit `decode`; None if they are not counted."""

    def refuse_bad(self, source: Source) -> None:
        """Raise RunError if a record of the source does not fit `decode`."""

    def checked(self) -> Mapping[str, Checked]:
        """The result of each check of the sink."""

    def letters(self, source: Source) -> Letters:
        """A function that makes the source's dead letters."""

    def target_rows(self) -> tuple[Any, Span | None]:
        """The rows for the target; with `deduplicate` also the span of the rows before it."""

    def skipped(self) -> int:
        """The number of records of other types, which make no rows."""

    def free(self) -> None:
        """Release the cached rows."""


class BatchReader(Protocol):
    """Makes the rows of a sink's micro-batches. `frame` is a DataFrame, or a value of a test."""

    def read(
        self,
        frame: Any,
        batch: Batch,
        own: Commit | None,
        lettered: Collection[Source],
        left_out: LeftOut = NOTHING_LEFT_OUT,
    ) -> BatchRows:
        """`own`: the sink's commit, if one is due; `lettered`: the sources whose dead letters may
        be due; `left_out`: records of which no rows are made."""

    def pass_over(self, frame: Any) -> None:
        """Handle a micro-batch of which no commit is due."""

    def skips(self, error: Exception) -> bool:
        """Whether the error is an unreadable record batch and the user skips those."""

    def failed_record(self, frame: Any, batch: Batch, error: Exception) -> str | None:
        """The message that names the record whose value caused the error; None for other errors,
        and if no single record did."""

    def left_out(
        self,
        frame: Any,
        batch: Batch,
        error: Exception,
        known: Sequence[FailedRecord],
        there: Callable[[], Sequence[FailedRecord]],
    ) -> LeftOut | None:
        """`known`, or else those that are `there`, and the other records whose values cause errors;
        None for other errors, and if there are none. Raises RunError if there are too many."""

    def letters_of(self, frame: Any, records: Sequence[FailedRecord]) -> Any:
        """The dead letters of some records of the micro-batch."""

    def without_unreadable(
        self, frame: Any, batch: Batch, record: Callable[[Sequence[LostRange]], None]
    ) -> Any:
        """The frame without unreadable record batches; their offset ranges are recorded first."""


class OwnLetters(Protocol):
    """The dead letters of the records that one sink leaves out."""

    def there(self, frame: Any) -> Sequence[FailedRecord]:
        """The records of a micro-batch that have one already: an attempt was killed after it."""

    def write(self, letters: Any, batch_id: int) -> int:
        """Commit those that are missing; return their number. Raises LettersStoppedError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSink:
    """One sink of one start. `file`: the pipeline's name in commands. `topics`: those of all its
    sources. `begun_at`: the start offsets, empty if the source finds them by its `start`.
    `ends_at`: the end offsets of this run. `keeper`: the maintenance, None without any. `stream`: a
    streaming DataFrame. `parse`: reads offsets as Spark reports them. `warnings`: what the start
    skipped by the user's options."""

    file: str
    plan: SinkPlan
    opened: OpenTarget
    letters: SinkLetters
    files: CheckpointFiles
    reader: BatchReader
    advice: Advice
    keeper: Keeper | None
    topics: Topics
    begun_at: ByPartition
    ends_at: ByPartition
    stream: Any
    parse: Callable[[str], TopicOffsets]
    warnings: Sequence[str]
    own_letters: OwnLetters | None = None
    """With `on_error: dead_letter`."""

    def begins(self) -> ByPartition | None:
        """The start offsets; None if only the source knows them."""
        if not self.begun_at and self.plan.source.start.text != "earliest":
            return None
        begun, earliest = self.begun_at, self.topics.earliest
        return {p: begun.get(p, earliest.get(p, 0)) for p in self.topics.latest.ends}

    def records_to_do(self) -> int | None:
        """The number of offsets from start to end; None if only the source knows the start."""
        begun = self.begins()
        # Positions in a table are no numbers of rows.
        if begun is None or self.plan.source.table_stream is not None:
            return None
        return sum(max(0, end - begun[p]) for p, end in self.ends_at.items())

    def latest(self, query: Any) -> ByPartition:
        """The topics' end offsets: from the query's last progress, else from the start of the
        run."""
        progress = query.lastProgress
        looked = [each.latestOffset for each in progress.sources] if progress else []
        said = [json.loads(each) if each else None for each in looked]
        if not said or None in said:
            return self.topics.latest.ends
        return together(self.parse(json.dumps(each)) for each in said).ends
