"""Events of a run, and the base of their reporters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.model.retry_policy import Retry
from pipelines.transforms.checks import Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """One committed batch. Row counts come from the Delta commits.

    `already_there`: an earlier run had committed it to the sink's table; then there is no `version`
    and `checked` is empty. `checked`: check → its result. `copies`: rows that `deduplicate` left
    out. `skipped`: records of other types, by `other_types: skip`. `late`: rows of previous batches
    that arrived after the watermark. `judged`: source → (records that its dead-letter chain passed
    in this batch, for all its sinks; dead letters among them). `starts` and `ends`: the offset
    range of the batch, and the end offsets of the table. `seconds`: from its offsets to its last
    commit; `parts` of it: checks, dead letters, rows, as far as they ran. The first part includes
    the time to read and decode the records.
    """

    sink: str
    batch: int
    records: int
    rows: int
    dead_letters: int
    ends: ByPartition
    already_there: bool = False
    checked: Mapping[str, Checked] = field(default_factory=dict)
    copies: int = 0
    skipped: int = 0
    late: int = 0
    judged: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    version: int | None = None
    starts: ByPartition = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    """Tables of a family that lack rows, with the reason."""


LagMs: TypeAlias = Callable[[ByPartition], int | None]
"""From the end offsets of a sink's table: the age in milliseconds of the oldest record that the
table lacks, 0 if it has all, None if unknown. Any thread may call it, and it may raise anything."""


class Reporter:
    """Receives the events of a run, from several threads. This one ignores them; a subclass has the
    methods of those that it handles."""

    def starting(self, what: str) -> None: ...

    def begun(self, sink: str, records_to_do: int | None) -> None: ...

    def watched(
        self,
        sink: str,
        begins: ByPartition | None,
        latest: Callable[[], ByPartition],
        lag_ms: LagMs | None = None,
    ) -> None:
        """`begins`: the sink's start offsets, None if only its source knows them. `latest` returns
        the end offsets of its topics; any thread may call it, and it may raise anything."""

    def batch(self, done: BatchDone) -> None: ...

    def retrying(self, sink: str, batch: int, retry: Retry) -> None: ...

    def restarting(self, sink: str, retry: Retry) -> None: ...

    def failed(self, sink: str, line: str, left: int) -> None:
        """The sink is not restarted in this run; `left` sinks continue. If none does, the failure
        of the run states the reason."""

    def warned(self, sink: str, line: str) -> None:
        """The sink's start skipped something because an option allowed it."""

    def upkeep_failed(self, sink: str, line: str) -> None: ...

    def group_failed(self, source: str, line: str) -> None: ...

    def table_failed(self, line: str) -> None:
        """Rows are missing in the metric table."""


class Both(Reporter):
    """A reporter that forwards each event to two reporters."""

    def __init__(self, first: Reporter, second: Reporter) -> None:
        self._both = (first, second)

    def starting(self, what: str) -> None:
        for each in self._both:
            each.starting(what)

    def begun(self, sink: str, records_to_do: int | None) -> None:
        for each in self._both:
            each.begun(sink, records_to_do)

    def watched(
        self,
        sink: str,
        begins: ByPartition | None,
        latest: Callable[[], ByPartition],
        lag_ms: LagMs | None = None,
    ) -> None:
        for each in self._both:
            each.watched(sink, begins, latest, lag_ms)

    def batch(self, done: BatchDone) -> None:
        for each in self._both:
            each.batch(done)

    def retrying(self, sink: str, batch: int, retry: Retry) -> None:
        for each in self._both:
            each.retrying(sink, batch, retry)

    def restarting(self, sink: str, retry: Retry) -> None:
        for each in self._both:
            each.restarting(sink, retry)

    def failed(self, sink: str, line: str, left: int) -> None:
        for each in self._both:
            each.failed(sink, line, left)

    def warned(self, sink: str, line: str) -> None:
        for each in self._both:
            each.warned(sink, line)

    def upkeep_failed(self, sink: str, line: str) -> None:
        for each in self._both:
            each.upkeep_failed(sink, line)

    def group_failed(self, source: str, line: str) -> None:
        for each in self._both:
            each.group_failed(source, line)

    def table_failed(self, line: str) -> None:
        for each in self._both:
            each.table_failed(line)
