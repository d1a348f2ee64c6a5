"""A sink that is ready for its batches: its target open, its start settled, its stream not begun.

What reads a batch's rows is a port (`BatchReader`): Spark in a run, lists in a unit test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from josefine_spark.topic_offsets import ByPartition, TopicOffsets
from pipelines.advice import Advice
from pipelines.chain import Batch, Commit, together
from pipelines.checking import Checked
from pipelines.checkpoint import CheckpointFiles
from pipelines.deduplicating import Span
from pipelines.keeping import Keeper
from pipelines.losses import LostRange
from pipelines.model import Source
from pipelines.sink_letters import Letters, SinkLetters
from pipelines.sink_plan import SinkPlan
from pipelines.sources import Topics
from pipelines.targets.target import OpenTarget


class BatchRows(Protocol):
    """A micro-batch's rows, at the nodes that its sink asks for."""

    @property
    def bad(self) -> int | None:
        """How many records `decode` does not take; None where nobody has counted."""

    def refuse_bad(self, source: Source) -> None:
        """Raise RunError where the source has a record that `decode` does not take."""

    def checked(self) -> Mapping[str, Checked]:
        """What each check of the sink finds."""

    def letters(self, source: Source) -> Letters:
        """What makes the source's dead letters."""

    def target_rows(self) -> tuple[Any, Span | None]:
        """What the sink's target gets; the span of rows before copies were left out, if any are."""

    def free(self) -> None:
        """Nobody looks at them again."""


class BatchReader(Protocol):
    """Who makes the rows of a sink's batches. `frame` is Spark's, or whatever a test has."""

    def read(
        self, frame: Any, batch: Batch, own: Commit | None, lettered: Collection[Source]
    ) -> BatchRows:
        """`own`: the sink's commit, if one is due; `lettered`: sources whose letters may be."""

    def pass_over(self, frame: Any) -> None:
        """Of a batch of which nothing is due."""

    def skips(self, error: Exception) -> bool:
        """Whether a record batch that cannot be read ended a look at the rows, and is to be skipped
        by the user's decision."""

    def without_unreadable(
        self, frame: Any, batch: Batch, record: Callable[[Sequence[LostRange]], None]
    ) -> Any:
        """The frame without the record batches that cannot be read, which are recorded first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSink:
    """One sink of one start. `file`: as commands name it. `topics`: of all its sources. `begun_at`:
    empty where the source's `start` says it. `ends_at`: where this run ends. `stream`: Spark's.
    `keeper`: None where no maintenance is due. `parse`: reads offsets as Spark reports them.
    `warnings`: what the start passed over as it was told."""

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

    def begins(self) -> ByPartition | None:
        """Where it goes on; None where the source itself finds out."""
        if not self.begun_at and self.plan.source.start.text != "earliest":
            return None
        begun, earliest = self.begun_at, self.topics.earliest
        return {p: begun.get(p, earliest.get(p, 0)) for p in self.topics.latest.ends}

    def records_to_do(self) -> int | None:
        """How many offsets lay between the start and the end, when the run was prepared; None where
        the source itself finds out where it begins."""
        begun = self.begins()
        if begun is None:
            return None
        return sum(max(0, end - begun[p]) for p, end in self.ends_at.items())

    def latest(self, query: Any) -> ByPartition:
        """Where the topics end: by the query's last look, or else as the run found them."""
        progress = query.lastProgress
        looked = [each.latestOffset for each in progress.sources] if progress else []
        said = [json.loads(each) if each else None for each in looked]
        if not said or None in said:
            return self.topics.latest.ends
        return together(self.parse(json.dumps(each)) for each in said).ends
