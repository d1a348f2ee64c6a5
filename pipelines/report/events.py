"""What is told of a run while it goes on, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.model.retry_policy import Retry
from pipelines.transforms.checks import Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """One batch that is in the tables. Counts of rows come from the Delta commits.

    `already_there`: an earlier run had committed it to the sink's table; there is no `version` of
    the table then. `checked`: check → what it found, empty then. `copies`: rows that `deduplicate`
    left out. `late`: what came behind the watermark, in batches before. `judged`: source →
    (records that the chain of its dead letters passed with it, for all its sinks; letters among
    them). `starts` and `ends`: the offsets that it passed, and where the table is with it.
    `seconds`: from its offsets to its last commit; of these `parts`: `checks`, `letters`, `rows`,
    each where there was one. Whoever comes
    first of them reads and decodes the records.
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
    late: int = 0
    judged: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    version: int | None = None
    starts: ByPartition = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)


class Reporter(Protocol):
    """Who shows a run while it goes on. Called from several threads."""

    def starting(self, what: str) -> None: ...

    def begun(self, sink: str, records_to_do: int | None) -> None: ...

    def watched(
        self, sink: str, begins: ByPartition | None, latest: Callable[[], ByPartition]
    ) -> None:
        """`begins`: where the sink goes on, None where only its source knows. `latest` may be asked
        from any thread where its topics end; it may raise anything."""

    def batch(self, done: BatchDone) -> None: ...

    def retrying(self, sink: str, batch: int, retry: Retry) -> None: ...

    def restarting(self, sink: str, retry: Retry) -> None: ...

    def failed(self, sink: str, line: str, left: int) -> None:
        """This run does not begin it again; `left` sinks go on. Where none does, the run's own
        failure says why."""

    def warned(self, sink: str, line: str) -> None:
        """The sink's start passed over something, as the user had said."""

    def upkeep_failed(self, sink: str, line: str) -> None: ...

    def group_failed(self, source: str, line: str) -> None: ...

    def table_failed(self, line: str) -> None:
        """The table of metrics lacks rows."""


class Both:
    """Two reporters as one."""

    def __init__(self, first: Reporter, second: Reporter) -> None:
        self._both = (first, second)

    def starting(self, what: str) -> None:
        for each in self._both:
            each.starting(what)

    def begun(self, sink: str, records_to_do: int | None) -> None:
        for each in self._both:
            each.begun(sink, records_to_do)

    def watched(
        self, sink: str, begins: ByPartition | None, latest: Callable[[], ByPartition]
    ) -> None:
        for each in self._both:
            each.watched(sink, begins, latest)

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
