"""A pipeline file after validation: frozen values, every reference resolved, no YAML left.

Places are kept for the values that only Spark can judge (SQL, schemas), so that its complaint
still names a line of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.errors import Place
from pipelines.evolution import Evolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A text and where the file says it. `written` is what stands there, "" when it differs."""

    text: str
    place: Place
    path: str
    written: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """How a record's value becomes columns. `dead_letter`: bad records go there, else they stop."""

    schema: Placed
    dead_letter: bool
    strict: bool = False
    """Values that Spark's JSON reader would change without a word are bad ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One read of topics. Exactly one of `topics` and `pattern` is set.

    `skips_losses`: what retention deleted before it was read is recorded and passed over.
    """

    name: str
    place: Place
    bootstrap: str
    topics: tuple[str, ...]
    pattern: str | None
    start: str
    rows_max: int | None
    headers: bool
    decode: Decode | None
    skips_losses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A SELECT over its inputs, which it names as tables."""

    name: str
    place: Place
    inputs: tuple[str, ...]
    sql: Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One merged column: `column = function(argument)`; `argument` None means `count(*)`."""

    column: str
    function: str
    argument: str | None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """One Delta table. With `aggregates` batches are merged by `keys`, else rows are appended."""

    name: str
    place: Place
    input: str
    path: str | None
    table: str | None
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    key_places: tuple[Place, ...] = ()
    evolution: Evolution = Evolution.NONE

    @property
    def merges(self) -> bool:
        return bool(self.aggregates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The whole file. `every_ms` None means: read what is there now, then end."""

    name: str
    file: str
    master: str | None
    conf: Mapping[str, str] = field(repr=False)
    conf_places: Mapping[str, Place] = field(default_factory=dict, repr=False)
    checkpoint: str
    sources: Mapping[str, Source]
    transforms: Mapping[str, Transform]
    sinks: Mapping[str, Sink]
    dead_letter_path: str | None
    every_ms: int | None
    environment: str | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """The values of the file's secrets: no message may have one."""

    @property
    def as_arguments(self) -> str:
        """How a command names this pipeline."""
        return f"{self.file} --env {self.environment}" if self.environment else self.file

    def checkpoint_of(self, sink: str) -> str:
        """A sink's folder below the checkpoint. A dot is in no name, so it is nobody else's."""
        return f"{self.checkpoint}/{self.name}.{sink}"

    def old_checkpoint_of(self, sink: str) -> str:
        """Where it was before pipelines that share a checkpoint had folders of their own."""
        return f"{self.checkpoint}/{sink}"

    def source_of(self, sink: Sink) -> Source:
        """The one source that a sink's rows come from (validation made sure of one)."""
        return self.sources[next(iter(self.lineage(sink.input)[0]))]

    def lineage(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(sources, transforms) that `name` is made of; transforms in the order to build them.

        Ends also where a file is wrong and transforms are in a circle.
        """
        sources: dict[str, None] = {}
        transforms: dict[str, None] = {}
        seen: set[str] = set()

        def visit(node: str) -> None:
            if node in self.sources:
                sources[node] = None
            elif node in self.transforms and node not in seen:
                seen.add(node)
                for below in self.transforms[node].inputs:
                    visit(below)
                transforms[node] = None

        visit(name)
        return tuple(sources), tuple(transforms)

    def writes_dead_letters(self, sink: Sink) -> bool:
        """Whether this sink's batches write its source's dead letters: the first sink's do."""
        source = self.source_of(sink)
        if source.decode is None or not source.decode.dead_letter:
            return False
        first = next(s for s in self.sinks.values() if self.source_of(s) is source)
        return first.name == sink.name
