"""Which tables have left a dead letter out: those that a replay may put its rows into. Pure.

A sink leaves a record out by the file of the day when it reads it; another sink may read the same
record after the fix, and take it. So each commit has a digest of its judgement
(`exactly_once/decode_fingerprint.py`). A sink that read the letter's offset with the digest of the
letter has left it out; one that read it with today's has whatever today's file makes of it. What is
neither is for a person to say.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import flat
from pipelines.exactly_once.decode_fingerprint import JUDGED_BY
from pipelines.model.pipeline import Pipeline
from pipelines.sinks.delta_log import LogEntry

_CHECK = re.compile(r"(?:^|; )check ([a-z][a-z0-9_]*): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A record that was left out. `checks`: for what; none, it was not what `decode` expects."""

    partition: TopicPartition
    offset: int
    checks: tuple[str, ...] = ()


def checks_in(reason: str) -> tuple[str, ...]:
    """The checks that a letter's reason names."""
    return tuple(_CHECK.findall(reason)) if reason.startswith("check ") else ()


@dataclass(frozen=True, slots=True)
class Read:
    """Offsets that were read by one judgement; "" where nobody knows by which, or none were."""

    start: int
    end: int
    judged_by: str


Reads = Mapping[TopicPartition, Sequence[Read]]


def reads_of(newest_first: Iterable[LogEntry], moved: int) -> Reads:
    """What a chain's commits have read. `moved`: the batch of commits that pass records over."""
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
    """Whether a sink's table lacks the rows of a letter."""

    DUE = "it left the record out"
    THERE = "it has what the file makes of the record now"
    NOT_READ = "it has not read the record yet"
    UNSURE = "nobody knows whether it has the record's rows"


def due(letter: Letter, wrote: Reads, reads: Reads, today: str) -> Due:
    """`wrote`: the dead letters' chain; `reads`: the sink's; `today`: the file's judgement."""
    then = _judgements(letter, wrote)
    now = _judgements(letter, reads)
    if not now:
        read_on = any(each.start > letter.offset for each in reads.get(letter.partition, ()))
        return Due.UNSURE if read_on else Due.NOT_READ
    if then and "" not in then and set(now) == set(then[:1]):
        return Due.DUE
    return Due.THERE if now[-1] == today and today not in then else Due.UNSURE


def _judgements(letter: Letter, reads: Reads) -> list[str]:
    """Oldest first."""
    return [
        each.judged_by
        for each in reads.get(letter.partition, ())
        if each.start <= letter.offset < each.end
    ]


class Way(Enum):
    """What the nodes that left a record out are to a sink."""

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
