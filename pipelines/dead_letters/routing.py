"""Routing of a replayed dead letter to the tables that left its record out. Pure.

A sink leaves a record out by the pipeline file at the time of reading; another sink may read the
same record after the fix, and accept it. So each commit has a digest of the file's decode settings
and checks (`exactly_once/decode_fingerprint.py`). A sink that read the offset with the dead
letter's digest has left the record out; one that read it with the current digest has the record's
current rows. In any other case a person has to decide.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import flat
from pipelines.dead_letters.left_out import listed
from pipelines.exactly_once.decode_fingerprint import JUDGED_BY
from pipelines.model.pipeline import Pipeline
from pipelines.sinks.delta_log import LogEntry

_CHECK = re.compile(r"(?:^|; )check ([a-z][a-z0-9_]*): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A record that was left out. `checks`: those that it failed; none: it did not fit `decode`.
    `sink`: the sink that left it out alone, because an expression fails for it."""

    partition: TopicPartition
    offset: int
    checks: tuple[str, ...] = ()
    sink: str | None = None


def checks_in(reason: str) -> tuple[str, ...]:
    """The checks that a dead letter's reason names."""
    return tuple(_CHECK.findall(reason)) if reason.startswith("check ") else ()


@dataclass(frozen=True, slots=True)
class Read:
    """Offsets that were read with one digest; "" if it is unknown or the offsets were skipped."""

    start: int
    end: int
    judged_by: str


Reads = Mapping[TopicPartition, Sequence[Read]]


def reads_of(newest_first: Iterable[LogEntry], moved: int) -> Reads:
    """The offsets that a chain's commits have read. `moved`: the batch id of commits that skip
    records."""
    reads: dict[TopicPartition, list[Read]] = defaultdict(list)
    for entry in reversed([*newest_first]):
        said = entry.metadata or {}
        judged_by = str(said.get(JUDGED_BY, "")) if said.get("batch") != moved else ""
        start = flat(said.get("start", {}))
        for partition, end in flat(said.get("end", {})).items():
            begin, known = start.get(partition, 0), reads[partition]
            if begin >= end:
                continue
            last = known[-1] if known else None
            if last is not None and last.end == begin and last.judged_by == judged_by:
                known[-1] = Read(last.start, end, judged_by)
            else:
                known.append(Read(begin, end, judged_by))
    return reads


class Due(Enum):
    """Whether a sink's table lacks the rows of a dead letter."""

    DUE = "it left the record out"
    THERE = "it has what the file makes of the record now"
    NOT_READ = "it has not read the record yet"
    UNSURE = "nobody knows whether it has the record's rows"


def due(letter: Letter, wrote: Reads, reads: Reads, today: str) -> Due:
    """Whether a sink's table lacks the rows of `letter`. `wrote`: what the dead-letter chain has
    read; `reads`: what the sink has read; `today`: the file's current digest."""
    then = _judgements(letter, wrote)
    now = _judgements(letter, reads)
    if not now:
        read_on = any(each.start > letter.offset for each in reads.get(letter.partition, ()))
        return Due.UNSURE if read_on else Due.NOT_READ
    if then and "" not in then and set(now) == set(then[:1]):
        return Due.DUE
    return Due.THERE if now[-1] == today and today not in then else Due.UNSURE


def due_of_sink(letter: Letter, newest_first: Sequence[LogEntry], moved: int) -> Due:
    """Whether the table of the dead letter's own sink lacks its rows. `newest_first`: the sink's
    commits, each with the list of what it left out; `moved`: as in `reads_of`."""
    read_on = False
    for entry in newest_first:
        said = entry.metadata or {}
        end = flat(said.get("end", {})).get(letter.partition)
        start = flat(said.get("start", {})).get(letter.partition, 0)
        if end is None or not start <= letter.offset < end:
            read_on |= end is not None and start < end and start > letter.offset
            continue
        if said.get("batch") == moved:
            return Due.UNSURE
        return Due.DUE if (letter.partition, letter.offset) in listed(said) else Due.THERE
    return Due.UNSURE if read_on else Due.NOT_READ


def _judgements(letter: Letter, reads: Reads) -> list[str]:
    """The digests with which the dead letter's offset was read, oldest first."""
    return [
        each.judged_by
        for each in reads.get(letter.partition, ())
        if each.start <= letter.offset < each.end
    ]


class Way(Enum):
    """How a sink's rows depend on the nodes that left a record out."""

    ALL = "each of its rows comes through them"
    SOME = "it has other rows of the record, that came around them"
    NONE = "none of its rows comes through them"


def way(pipeline: Pipeline, node: str, left_out_at: Collection[str]) -> Way:
    """How `node` depends on the nodes that left a record out."""
    through, around = False, False
    below, seen = [node], set()
    while below:
        name = below.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in left_out_at:
            through = True
        elif name in pipeline.lookups:
            continue
        elif name in pipeline.transforms:
            below.extend(pipeline.transforms[name].inputs)
        else:
            around = True
    return Way.NONE if not through else Way.SOME if around else Way.ALL
