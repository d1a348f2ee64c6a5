"""The sink port: what a run and the commands need of the place that a sink's rows go to.

A `SinkTarget` is what the file says of it: made of a `Sink` alone, without Spark. A run opens it,
and commits through the `OpenTarget`. Rows and offsets become true in one commit, whatever the
target is: its chain (`SinkChain`) says how far the rows go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.chain import Commit, HandedOn, Tip
from pipelines.deduplicating import Span
from pipelines.delta_chain import Link
from pipelines.delta_log import LogEntry
from pipelines.finding import Finding
from pipelines.keeping import Keeper
from pipelines.losses import LostRange
from pipelines.model import Pipeline, Sink
from pipelines.other_chains import ChainName, OtherChain
from pipelines.reconcile import Unreadable
from pipelines.retries import Retry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from josefine_broker.client.io_blocking import BlockingClient

Connect = Callable[[str, Mapping[str, str]], "BlockingClient"]
"""Opens a client of brokers: their addresses and the settings of `security`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A Delta table by its folder or by its name in the catalog; one of the two is set."""

    path: str | None = None
    table: str | None = None

    @property
    def told(self) -> str:
        return str(self.path or self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRun:
    """Who opens a target. `session` is asked for only where Spark is needed; `losses`: the table of
    the records that the sink never got."""

    session: Callable[[], SparkSession]
    link: Link
    losses: TableAt
    on_retry: Callable[[int, Retry], None] = lambda batch_id, retry: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a commit made: rows that it wrote, changed or deleted, and its version."""

    rows: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a target says of a sink to who looks from outside. `newest`: its newest commit, where
    the target keeps a log of them."""

    tip: Tip | Unreadable | None
    others: Callable[[], list[OtherChain]]
    queries: Callable[[], set[str]]
    newest: LogEntry | None = None


class SinkChain(Protocol):
    """The commits of one sink, each linked to the one before. Mutable: the tip."""

    path: str
    link: Link
    tip: Tip | None
    query_id: str

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """Where the last own commit ends."""

    def is_there(self) -> bool:
        """Whether there is anything to commit to."""

    def others(self) -> list[OtherChain]:
        """The chains of other names in the same place."""

    def queries(self) -> set[str]:
        """Spark's ids of the queries behind the commits."""

    def take_over(self, other: OtherChain) -> None:
        """Go on where another name ended. Raises StoppedError."""

    def follow(self, tip: Tip | None) -> None:
        """Go on from a tip that the start settled on."""

    def move(self, commit: Commit, **more: Any) -> None:
        """Commit offsets without rows; `more` is said beside them. Raises StoppedError."""


class LetterChain(SinkChain, Protocol):
    """A chain into a table of dead letters."""

    def append(
        self, frame: DataFrame, commit: Commit, batch_id: int, more: Mapping[str, Any] | None = None
    ) -> LogEntry:
        """Write rows with their offsets. Raises StoppedError."""


class OpenTarget(Protocol):
    """A target that a run writes."""

    @property
    def chain(self) -> SinkChain: ...

    def fit(self, wants: Mapping[str, str], said: Mapping[str, Any]) -> bool:
        """Find out what has to change before rows with these columns (name → type) can be written;
        whether nothing does. `said`: by the last commit. Raises RunError where it cannot be."""

    def change(self) -> None:
        """Change that. What a crash leaves undone is due again."""

    def commit(
        self,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
        span: Span | None,
    ) -> Written:
        """Commit rows as `SinkTarget.rows` made them, with their offsets; `more` is said beside
        them. `span`: of the rows before copies were left out, where some are. Raises StoppedError,
        RunError where a row is refused."""

    def half_write(self, rows: DataFrame) -> None:
        """Do what a crash leaves between the rows and their commit."""

    def record_losses(self, lost: Sequence[LostRange]) -> None:
        """Write the ranges that the loss table has not. Raises StoppedError."""

    def keeper(self, stopping: Callable[[], bool]) -> Keeper | None:
        """Who does the maintenance between batches; None where none is due."""


class SinkTarget(Protocol):
    """What a pipeline file says of one sink's place."""

    sink: Sink

    @property
    def writes(self) -> str:
        """What its type is, as in "it writes a topic"."""

    @property
    def gets_replay(self) -> bool:
        """Whether rows of replayed dead letters can be added to those of before."""

    @property
    def has_columns(self) -> bool:
        """Whether its rows have typed columns, or only a key and a value."""

    def keys(self) -> tuple[str, ...]:
        """The columns of which the target has one row each; none where rows are only added."""

    def rows(self, pipeline: Pipeline, made: DataFrame) -> DataFrame:
        """What the target gets, of the rows of the sink's input. Raises ConfigError."""

    def prepare(self, run: TargetRun, stored: DataFrame, topic_ids: Collection[str]) -> OpenTarget:
        """Make sure of the place before a run. `stored`: the target's columns; `topic_ids`: of the
        topics that the sink's sources read. Raises RunError, SetupError."""

    def open(self, run: TargetRun) -> OpenTarget:
        """What is there, to commit to. Raises SetupError."""

    def probe(self, connect: Connect) -> str | None:
        """Ask whether a run can write there: "" or why not; None where nobody has to be asked."""

    def findings(self, trouble: str | None) -> list[Finding]:
        """What `pipeline check` says, given what `probe` found out."""

    def describe(self, name: ChainName) -> Seen | None:
        """What it says of a sink, without Spark; None where only Spark finds it. Raises
        PipelineError."""

    def folders(self) -> Iterator[tuple[str, str]]:
        """(key, path) of each folder that the file names for it."""

    def loss_table(self, pipeline: Pipeline) -> TableAt:
        """Where the ranges of records are recorded that it never got."""
