"""The chain's decision on a batch: it continues the table, is in the table already, or neither.

Every commit of a sink names the offsets it continues from and the offsets it reaches. A batch may
be committed only if it starts where the table ends. Pure functions: no Spark, no files, no clock.
End offsets are exclusive, so an end offset is the start offset of the next batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets


class Verdict(Enum):
    """Why a batch or a start was refused. The value is the sentence a user reads."""

    GAP = "the batch starts after the table's end: rows between them would be missing"
    OVERLAP = "the batch starts before the table's end: rows between them would be there twice"
    TORN = "some partitions start after the table's end and some before it"
    WENT_BACK = "the batch ends before it starts: the topic has lost records or was created again"
    TOPIC_RECREATED = "a topic was deleted and created again: its old offsets mean nothing in it"
    TABLE_AHEAD = "the table has more than the checkpoint planned"
    TABLE_BEHIND = "the table has less than the checkpoint committed"
    TABLE_ELSEWHERE = "table and checkpoint are at offsets neither of which follows from the other"
    TABLE_HAS_NOTHING = (
        "the checkpoint continues after committed batches, the table has no commit of this sink"
    )
    TABLE_UNREADABLE = (
        "the table knows a transaction of this sink, but the log entry with its offsets is gone"
    )
    CHECKPOINT_DAMAGED = "the checkpoint has a committed batch whose offsets are missing"
    RECORDS_LOST = "its topics have lost records that the table does not have"
    TOPIC_SHORTER = (
        "a topic ends before the table's end: its brokers are recovering, or have lost its last "
        "records and will give their offsets to others"
    )
    DEAD_LETTERS_GONE = (
        "the dead letters' table lacks commits that this source's batches made there: it was "
        "deleted or restored to a version before them"
    )
    CHECKPOINT_UNNAMED = (
        "a checkpoint lies where they were kept before, and nothing shows whether it is of this "
        "pipeline: the table has no commit of this sink"
    )
    OTHER_CHAIN = (
        "its table has the rows of another name that read the same topics: all of them would be "
        "there twice"
    )
    STATE_GONE = "its table is there and its state is gone: it was in the checkpoint"
    STATE_ELSEWHERE = (
        "the checkpoint has the state of another query than the one that wrote the table"
    )
    STATE_STAYS = "that would set its checkpoint aside, and its state is there"
    LOST_RACE = "another run of this sink has committed to the table meanwhile"


def together(sources: Iterable[TopicOffsets]) -> TopicOffsets:
    """The combined offsets of several sources, which share no topic."""
    found = list(sources)
    return TopicOffsets(
        ends={p: end for each in found for p, end in each.ends.items()},
        first={p: first for each in found for p, first in each.first.items()},
        topic_ids={topic: name for each in found for topic, name in each.topic_ids.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One planned batch of a source.

    `start` lacks a partition that is new in the batch; `end.first` then has its first offset. It
    comes from the recorded offsets, never from a second request: `earliest` may have moved.
    """

    start: ByPartition
    end: TopicOffsets
    starts: ByPartition = field(init=False, compare=False, repr=False)
    """The batch's start offset in each partition; a partition without a known start is missing."""

    def __post_init__(self) -> None:
        # A recorded start wins over `first`, which is only for partitions that are new in the
        # batch.
        object.__setattr__(self, "starts", {**self.end.first, **self.start})

    def of_topics(self, topics: Collection[str]) -> Batch:
        """The part of the batch in these topics."""
        others = {*self.end.topic_ids, *(topic for topic, _ in self.end.ends)} - {*topics}
        start = {p: offset for p, offset in self.start.items() if p[0] in topics}
        return Batch(start=start, end=self.end.without(others))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """A sink's newest commit in its table: the offsets it reached and its transaction version.

    `said`: the whole userMetadata of that commit.
    """

    reached: TopicOffsets
    txn_version: int
    said: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOn:
    """The sink's newest commit handed its chain on to another name (`to`: its transaction id)."""

    to: str
    txn_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Write the batch's rows with these offsets, without rows below `skip_below`: the table has
    those already."""

    start: ByPartition
    end: TopicOffsets
    txn_version: int
    skip_below: ByPartition = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skip:
    """The table has the whole batch already: write nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Neither: a person has to decide which side is right."""

    verdict: Verdict
    partitions: tuple[TopicPartition, ...] = ()
    detail: str = ""


Decision = Commit | Skip | Stop


def decide(batch: Batch, tip: Tip | None) -> Decision:
    """Decide on a batch of a sink whose rows carry no offset of their own (every sink).

    A partial overlap cannot be cut out of such rows, so the batch must start exactly at the table's
    end in each partition that the table knows."""
    wrong = _wrong_in_itself(batch, tip)
    if wrong is not None:
        return wrong
    # The first batch of a new table: any start is right.
    if tip is None:
        return _commit(batch, tip, {})
    # Before the comparison of starts: a repeated batch starts before the table's end, as it must.
    if _reached(batch, tip):
        return Skip()
    later: list[TopicPartition] = []
    earlier: list[TopicPartition] = []
    for partition in batch.end.ends:
        table_end, start = tip.reached.ends.get(partition), batch.starts.get(partition)
        # None: a partition that is new in the table, which may start anywhere.
        if table_end is None or table_end == start:
            continue
        (later if start is None or start > table_end else earlier).append(partition)
    if later or earlier:
        # One verdict for all partitions, because the ways out differ: rows are missing, or would be
        # there twice, or both.
        verdict = Verdict.TORN if later and earlier else Verdict.GAP if later else Verdict.OVERLAP
        return Stop(verdict=verdict, partitions=tuple(sorted(later + earlier)))
    return _commit(batch, tip, {})


def decide_by_offset(batch: Batch, tip: Tip | None) -> Decision:
    """Decide on a batch of a table whose every row carries its own offset (dead letters).

    An overlap is no reason to stop here: the rows below the table's end are left out. It happens
    after a crash between the dead letters' commit and the sink's, when the next run cuts the
    batches differently.
    """
    wrong = _wrong_in_itself(batch, tip)
    if wrong is not None:
        return wrong
    if tip is None:
        return _commit(batch, tip, {})
    skip_below = {}
    later = []
    for partition in batch.end.ends:
        table_end, start = tip.reached.ends.get(partition), batch.starts.get(partition)
        if table_end is None or table_end == start:
            continue
        if start is None or start > table_end:
            later.append(partition)
        else:
            skip_below[partition] = table_end
    # Here further is enough, unlike in `decide`: rows carry their offsets, so none can be there
    # twice.
    if all(tip.reached.ends.get(partition, -1) >= end for partition, end in batch.end.ends.items()):
        return Skip()
    if later:
        return Stop(verdict=Verdict.GAP, partitions=tuple(sorted(later)))
    return _commit(batch, tip, skip_below)


def _wrong_in_itself(batch: Batch, tip: Tip | None) -> Stop | None:
    """Why no table could take the batch: its topics were created again, or it ends before it
    starts."""
    if tip is not None:
        recreated = tip.reached.recreated(batch.end.topic_ids)
        if recreated:
            partitions = tuple(sorted(p for p in batch.end.ends if p[0] in recreated))
            return Stop(verdict=Verdict.TOPIC_RECREATED, partitions=partitions)
    back = sorted(p for p, end in batch.end.ends.items() if end < batch.starts.get(p, 0))
    return Stop(verdict=Verdict.WENT_BACK, partitions=tuple(back)) if back else None


def _reached(batch: Batch, tip: Tip) -> bool:
    """Whether the table is exactly at the batch's end.

    A partition that the table does not know yet is not reached, even without rows: the commit
    records its start offset, which a lost checkpoint would lose otherwise.
    """
    return all(tip.reached.ends.get(partition) == end for partition, end in batch.end.ends.items())


def _commit(batch: Batch, tip: Tip | None, skip_below: ByPartition) -> Commit:
    """The commit of a batch. A topic that left the subscription keeps its end: it may come back."""
    reached = tip.reached if tip else TopicOffsets()
    # All partitions of the chain, not only the batch's: each commit is complete in itself, so that
    # the newest one is all that a start has to read.
    start = dict(reached.ends)
    for partition in batch.end.ends:
        begun = batch.starts.get(partition)
        if begun is not None and partition not in skip_below:
            start[partition] = begun
    # Dead letters may be ahead of the batch: their chain never goes back.
    ends = {p: max(offset, skip_below.get(p, 0)) for p, offset in batch.end.ends.items()}
    return Commit(
        start=start,
        end=TopicOffsets(
            ends={**reached.ends, **ends},
            topic_ids={**reached.topic_ids, **batch.end.topic_ids},
        ),
        txn_version=(tip.txn_version if tip else 0) + 1,
        skip_below=skip_below,
    )
