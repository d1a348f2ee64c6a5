"""The plan of one topic's part of a query: which version of its table, which offsets of its log.

Rules: the log is read from the end offsets of the table's chain to the last stable offset, so each
committed record counts once; if table, topic and group contradict each other by the writer's own
rules (`writer.start`), no answer over both is exact and there is none. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.query.refusals import QueryError
from josefine_lake.writer.start import Sides, start
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.exactly_once.checkpoint_start import LETTERS
from pipelines.exactly_once.offset_chain import Stop, Tip
from pipelines.exactly_once.other_chains import name_of

ONLY = ""
"""In place of a topic's name: the only one of a statement."""
TABLE_ALONE = "--no-tail reads the table alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`tail`: whether the log is read. `versions`: topic → version of its table, which is then read
    alone. `tail_bytes_max`: of all topics together."""

    tail: bool = True
    versions: Mapping[str, int] = field(default_factory=dict)
    tail_bytes_max: int = 256 << 20
    memory: str = "1GB"
    temporary: str = "10GB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The offsets of a topic to read from its log: from `starts` to `ends`, exclusive."""

    starts: ByPartition
    ends: ByPartition

    @property
    def left(self) -> dict[TopicPartition, int]:
        """The partitions that have something to read, with its first offset."""
        return {p: at for p, at in self.starts.items() if at < self.ends[p]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """What one topic's part of an answer holds for.

    `ends`: up to these offsets, exclusive; empty: the table's chain has none. `version`,
    `table_rows`: of the table; None: there is no table, or its log has no counts. `tail_rows`:
    rows, or in mode upsert changes, that came from the log; None: the log was not read. `bad`: the
    records that do not decode, of which `named` are the first ones."""

    topic: str
    ends: ByPartition
    version: int | None = None
    table_rows: int | None = None
    tail_rows: int | None = None
    what: str = "row"
    bad: int = 0
    named: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line for a person."""
        places = " ".join(f"{p.partition}:{at}" for p, at in sorted(self.ends.items()))
        parts = [f"offsets up to {places}" if places else "offsets unknown"]
        if self.version is not None:
            rows = "" if self.table_rows is None else f": {_count(self.table_rows, 'row')}"
            parts.append(f"table version {self.version}{rows}")
        if self.tail_rows is not None:
            parts.append(f"log: {_count(self.tail_rows, self.what)}")
        if self.bad:
            named = "; ".join(self.named) + ("; …" if self.bad > len(self.named) else "")
            parts.append(f"{_count(self.bad, 'bad record')} not shown ({named})")
        return f"{self.topic}: {', '.join(parts)}"


def tail_of(table: TableTopic, sides: Sides, stable: ByPartition) -> Tail:
    """The part of the log that the table has not. `stable`: the last stable offsets; of each
    partition that `sides` has. Raises QueryError."""
    ready = start(table, _without_letters(sides))
    if isinstance(ready, Stop):
        raise QueryError(_contradiction(table, ready, sides))
    ends = {p: max(at, stable.get(p, at)) for p, at in ready.positions.items()}
    return Tail(starts=ready.positions, ends=ends)


def _without_letters(sides: Sides) -> Sides:
    """Without what a start knows of the dead letters' table: a query does not read it."""
    tip = sides.found
    if isinstance(tip, Tip) and LETTERS in tip.said:
        said = {name: each for name, each in tip.said.items() if name != LETTERS}
        tip = replace(tip, said=said)
    return replace(sides, found=tip, dead=None)


def _contradiction(table: TableTopic, stop: Stop, sides: Sides) -> str:
    where = ", ".join(map(str, stop.partitions))
    to = getattr(sides.found, "to", None)
    if to is not None:
        detail = f"the table was handed on to {name_of(to) or to}, which writes it now"
    else:
        detail = stop.verdict.value + (f" ({where})" if where else "")
        detail += f"; {stop.detail}" if stop.detail else ""
    return (
        f"topic '{table.topic}': its table and its log do not fit together: {detail}. "
        f"{TABLE_ALONE}; `josefine tables status --topic {table.topic}` shows the way out"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
