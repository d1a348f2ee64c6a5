"""A sink target in memory, for tests: rows are Python values, commits a list. No Spark, no files.

It keeps the rules of every target: a commit has rows and offsets; its number is the previous one of
the chain + 1; a commit by another run of the same name stops this run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from josefine_spark.base.topic_offsets import TopicOffsets, flat
from pipelines.base.errors import RunError
from pipelines.base.finding import Finding
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.data_loss import LostRange, unrecorded
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Tip
from pipelines.exactly_once.other_chains import ChainName, OtherChain, name_of
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Pipeline, Sink
from pipelines.sinks.commits import NO_BATCH, Link, hand_over, lost_race, said_of
from pipelines.sinks.delta_log import LogEntry
from pipelines.sinks.delta_maintenance import Keeper
from pipelines.sinks.target import Connect, Seen, TableAt, TargetRun, Written
from pipelines.storage.folders import OpenFolder, open_local
from pipelines.transforms.deduplicate import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One commit."""

    app_id: str
    txn_version: int
    said: Mapping[str, Any]
    rows: Sequence[Any]


@dataclass(slots=True)
class MemoryPlace:
    """The contents of a target; it outlives a run. Mutable: the commits, oldest first, and the lost
    ranges.

    `columns`: name → type of the columns that have a fixed type. `at` is called with the name of
    each step of a write; a test raises its crash there.
    """

    columns: dict[str, str] = field(default_factory=dict)
    commits: list[Made] = field(default_factory=list)
    lost: list[LostRange] = field(default_factory=list)
    at: Callable[[str], None] = lambda step: None

    def rows(self) -> list[Any]:
        """All rows in commit order."""
        return [row for made in self.commits for row in made.rows]

    def of(self, app_id: str) -> list[Made]:
        """One chain's commits, oldest first."""
        return [made for made in self.commits if made.app_id == app_id]


class MemoryChain:
    """One sink's chain in one place. Mutable: the tip and the number of commits seen."""

    def __init__(self, place: MemoryPlace, link: Link, path: str = "memory") -> None:
        self.path = path
        self.link = link
        self.tip: Tip | None = None
        self.query_id = ""
        self._place = place
        self._app_id = link.app_id
        self._seen = 0

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """The last commit of this name, or the one by which another name handed over to it."""
        self._seen = len(self._place.commits)
        self.tip = None
        own = self._place.of(self._app_id)
        version = own[-1].txn_version if own else 0
        for made in reversed(self._place.commits):
            to = made.said.get("handed_to")
            if made.app_id == self._app_id and to:
                return HandedOn(to=to, txn_version=version)
            if self._app_id in (made.app_id, to):
                ends, ids = flat(made.said["end"]), made.said["topic_ids"]
                reached = TopicOffsets(ends=ends, topic_ids=ids)
                self.tip = Tip(reached=reached, txn_version=version, said=made.said)
                return self.tip
        return None

    def is_there(self) -> bool:
        """Always."""
        return True

    def others(self) -> list[OtherChain]:
        """The chains of other names that nobody has taken over."""
        newest = {made.app_id: made for made in self._place.commits}
        found = []
        for app_id, made in newest.items():
            name = name_of(app_id)
            if name is not None and app_id != self._app_id and not made.said.get("handed_to"):
                reached = TopicOffsets(ends=flat(made.said["end"]))
                found.append(OtherChain(name=name, reached=reached))
        return found

    def queries(self) -> set[str]:
        """The queries of all commits of this name."""
        return {str(made.said["query"]) for made in self._place.of(self._app_id)}

    def take_over(self, other: OtherChain) -> None:
        """The other name commits that this one continues. Raises StoppedError."""
        old = self.link.under(other.name)
        hand_over(MemoryChain(self._place, old, self.path), self._app_id)

    def follow(self, tip: Tip | None) -> None:
        """Continue from a settled tip."""
        self.tip = tip

    def move(self, commit: Commit, **more: Any) -> None:
        """A commit without rows."""
        self.append([], commit, NO_BATCH, more)

    def append(
        self, frame: Any, commit: Commit, batch_id: int, more: Mapping[str, Any] | None = None
    ) -> LogEntry:
        """`frame`: an iterable of rows."""
        rows = list(frame)
        self._place.at("before_rows")
        if any(made.app_id == self._app_id for made in self._place.commits[self._seen :]):
            raise lost_race()
        said = said_of(self.link, self.query_id, commit, batch_id, more)
        made = Made(app_id=self._app_id, txn_version=commit.txn_version, said=said, rows=rows)
        self._place.commits.append(made)
        self._seen = len(self._place.commits)
        self.tip = Tip(reached=commit.end, txn_version=commit.txn_version, said=said)
        self._place.at("after_rows")
        return LogEntry(
            version=self._seen,
            operation="WRITE",
            txn_version=commit.txn_version,
            txns={self._app_id: commit.txn_version},
            metadata=said,
            metrics={"numOutputRows": len(rows)},
        )


@dataclass(frozen=True, slots=True)
class OpenMemory:
    """A place that is open for commits."""

    chain: MemoryChain
    place: MemoryPlace
    sink: Sink

    def fit(self, wants: Mapping[str, Type], said: Mapping[str, Any]) -> bool:
        """Raises RunError if a column has another type."""
        wrong = [n for n, kind in wants.items() if self.place.columns.get(n, kind) != kind]
        if wrong:
            raise RunError(f"sink `{self.sink.name}`: column {', '.join(wrong)} has another type")
        return True

    def change(self) -> None:
        """Nothing."""

    def commit(
        self,
        rows: Any,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
        span: Span | None,
    ) -> Written:
        """Append the rows."""
        entry = self.chain.append(rows, commit, batch_id, more)
        return Written(rows=entry.metrics["numOutputRows"], version=entry.version)

    def half_write(self, rows: Any) -> None:
        """Nothing: half a write leaves no trace."""

    def record_losses(self, lost: Sequence[LostRange]) -> None:
        """Adds those that are not recorded."""
        self.place.lost.extend(unrecorded(lost, self.place.lost))

    def keeper(self, stopping: Callable[[], bool]) -> Keeper | None:
        """None."""
        return None


class MemoryTarget:
    """A target in this process. `place` outlives it."""

    writes = "memory"
    gets_replay = True
    has_columns = True

    def __init__(self, sink: Sink, place: MemoryPlace) -> None:
        self.sink = sink
        self.place = place

    def keys(self) -> tuple[str, ...]:
        """Those of the file."""
        return self.sink.keys

    def rows(self, pipeline: Pipeline, made: Any) -> Any:
        """Unchanged."""
        return made

    def as_stored(self, made: Any) -> Any:
        """Unchanged: it stores keys as they are."""
        return made

    def prepare(self, run: TargetRun, stored: Any, topic_ids: Collection[str]) -> OpenMemory:
        """Nothing to create."""
        return self.open(run)

    def open(self, run: TargetRun) -> OpenMemory:
        """With a new chain."""
        return OpenMemory(MemoryChain(self.place, run.link), self.place, self.sink)

    def probe(self, connect: Connect) -> str | None:
        """Nothing to ask."""
        return None

    def findings(self, trouble: str | None) -> list[Finding]:
        """None."""
        return []

    def describe(self, name: ChainName, open_folder: OpenFolder = open_local) -> Seen:
        """From its commits."""
        chain = MemoryChain(self.place, Link(pipeline=name.pipeline, sink=name.sink, run=""))
        found = chain.load()
        tip = found if isinstance(found, (Tip, Unreadable)) else None
        return Seen(tip=tip, others=chain.others, queries=chain.queries)

    def folders(self) -> Iterator[tuple[str, str]]:
        """None."""
        return iter(())

    def loss_table(self, pipeline: Pipeline) -> TableAt:
        """The place itself."""
        return TableAt(path="memory")
