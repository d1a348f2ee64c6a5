"""The sink port: what a run and the commands need of a sink's target.

A `SinkTarget` is made from a `Sink` alone, without Spark. A run opens it and commits through the
`OpenTarget`. Every target commits rows and offsets together; its chain (`SinkChain`) knows the end
offsets of the last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.base.finding import Finding
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.data_loss import LostRange
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Tip
from pipelines.exactly_once.other_chains import ChainName, OtherChain
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Pipeline, Sink
from pipelines.model.retry_policy import Retry
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_log import LogEntry
from pipelines.sinks.delta_maintenance import Keeper
from pipelines.storage.folders import OpenFolder, open_local
from pipelines.transforms.deduplicate import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from josefine_broker.client.io_blocking import BlockingClient

Connect = Callable[[str, Mapping[str, str]], "BlockingClient"]
"""Opens a client, given the brokers' addresses and the settings of `security`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A Delta table by its path or by its name in the catalog; one of the two is set."""

    path: str | None = None
    table: str | None = None

    @property
    def told(self) -> str:
        return str(self.path or self.table)


def table_by_checkpoint(pipeline: Pipeline, sink: Sink) -> TableAt:
    """The loss table of a sink without a Delta table of its own. Names have no dot, so its path is
    never that of another sink's checkpoint."""
    return TableAt(path=f"{pipeline.checkpoint_of(sink.name)}.lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRun:
    """What opens a target. `session` is called only if Spark is needed. `losses`: the table of lost
    offset ranges. `trusts_tables`: with `--trust table`. `every_ms`: the trigger's interval, None
    for a run with an end."""

    session: Callable[[], SparkSession]
    link: Link
    losses: TableAt
    trusts_tables: bool = False
    every_ms: int | None = None
    on_retry: Callable[[int, Retry], None] = lambda batch_id, retry: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A commit: the number of rows that it wrote, changed or deleted, and its version. `held`: the
    tables of a family that lack rows of it, with the reason."""

    rows: int
    version: int
    held: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A sink as its target describes it outside of a run. `newest`: its newest commit, None if the
    target keeps no log of commits."""

    tip: Tip | Unreadable | None
    others: Callable[[], list[OtherChain]]
    queries: Callable[[], set[str]]
    newest: LogEntry | None = None


class SinkChain(Protocol):
    """The commits of one sink, each linked to the previous one. Mutable: the tip."""

    path: str
    link: Link
    tip: Tip | None
    query_id: str

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """Read the last commit of this chain."""

    def is_there(self) -> bool:
        """Whether the table or topic exists."""

    def others(self) -> list[OtherChain]:
        """The chains of other names in the same target."""

    def queries(self) -> set[str]:
        """The ids of the Spark queries that made the commits."""

    def take_over(self, other: OtherChain) -> None:
        """Continue the chain of another name. Raises StoppedError."""

    def follow(self, tip: Tip | None) -> None:
        """Continue from a tip that the start settled on."""

    def move(self, commit: Commit, **more: Any) -> None:
        """Commit offsets without rows; `more` is added to the metadata. Raises StoppedError."""


class LetterChain(SinkChain, Protocol):
    """A chain into a table of dead letters."""

    def append(
        self, frame: DataFrame, commit: Commit, batch_id: int, more: Mapping[str, Any] | None = None
    ) -> LogEntry:
        """Commit rows with their offsets. Raises StoppedError."""


class OpenTarget(Protocol):
    """A target that is open for commits."""

    @property
    def chain(self) -> SinkChain: ...

    def fit(self, wants: Mapping[str, Type], said: Mapping[str, Any]) -> bool:
        """Find the changes that rows with these columns (name → type) need; whether there are none.
        `said`: the metadata of the last commit. Raises RunError if the rows cannot fit."""

    def change(self) -> None:
        """Make those changes. The next start repeats what a crash left undone."""

    def commit(
        self,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
        span: Span | None,
    ) -> Written:
        """Commit rows of `SinkTarget.rows` with their offsets; `more` is added to the metadata.
        `span`: with `deduplicate`, the span of the rows before it. Raises StoppedError; RunError if
        a row is refused."""

    def half_write(self, rows: DataFrame) -> None:
        """For failpoints: write the rows without their commit."""

    def record_losses(self, lost: Sequence[LostRange]) -> None:
        """Add the ranges that the loss table lacks. Raises StoppedError."""

    def keeper(self, stopping: Callable[[], bool]) -> Keeper | None:
        """The maintenance between micro-batches; None if the file asks for none."""


class SinkTarget(Protocol):
    """A sink's target as the pipeline file describes it."""

    sink: Sink

    @property
    def writes(self) -> str:
        """The kind of target in messages: a table, a topic."""

    @property
    def gets_replay(self) -> bool:
        """Whether replayed dead letters can be added to it."""

    @property
    def has_columns(self) -> bool:
        """Whether its rows have typed columns, not only a key and a value."""

    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row; empty if rows are only appended."""

    def rows(self, pipeline: Pipeline, made: DataFrame) -> DataFrame:
        """The rows for the target, made from the sink's input. Raises ConfigError."""

    def as_stored(self, made: DataFrame) -> DataFrame:
        """The sink's input with its types and its keys as the target, which exists, will store
        them."""

    def prepare(self, run: TargetRun, stored: DataFrame, topic_ids: Collection[str]) -> OpenTarget:
        """Open it for a run; create a table that is missing. `stored`: an empty frame with the
        columns. `topic_ids`: the topics of the sink's sources. Raises RunError, SetupError."""

    def open(self, run: TargetRun) -> OpenTarget:
        """Open what exists. Raises SetupError."""

    def probe(self, connect: Connect) -> str | None:
        """Ask the brokers whether a run can write it: "" or the reason why not; None if there is
        nothing to ask."""

    def findings(self, trouble: str | None) -> list[Finding]:
        """The findings of `pipeline check`, given the result of `probe`."""

    def describe(self, name: ChainName, open_folder: OpenFolder = open_local) -> Seen | None:
        """Describe a sink without Spark; None if only Spark finds it. Raises PipelineError."""

    def folders(self) -> Iterator[tuple[str, str]]:
        """(key in the file, path) of each folder that it writes."""

    def loss_table(self, pipeline: Pipeline) -> TableAt:
        """The table of offset ranges that the sink lost."""
