"""Moves of a sink's end offsets, and their effect on the table's rows. Pure.

A move writes no row: it decides which records the next run reads. A move backward makes the run
read the records between the new and the old end again; a move forward skips them. The effect of
reading records again depends on the sink's mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicIds, TopicOffsets
from pipelines.exactly_once.checkpoint_start import Checkpoint, Trust, Unreadable, reconcile
from pipelines.exactly_once.offset_chain import Commit, Stop, Tip, Verdict
from pipelines.model.pipeline import Mode

_AGAIN: Mapping[Mode, str] = {
    Mode.APPEND: "are read again: their rows would be there twice",
    Mode.MERGE: "are read again: they would be counted twice",
    Mode.UPSERT: "are read again: the latest rows stay",
    Mode.SCD2: "are read again: the versions stay as they are",
    Mode.UPDATE: "are read again: their changes would be there twice",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move of a sink's end from `start` to `end`, both for all partitions; partitions that are
    not in `end` are dropped."""

    start: TopicOffsets
    end: TopicOffsets

    @property
    def again(self) -> int:
        """The offset ranges that the table has and that would be read again."""
        return sum(self._by(-1).values())

    @property
    def left_out(self) -> int:
        """The offset ranges that the table does not have and that would be skipped."""
        return sum(self._by(1).values())

    def _by(self, sign: int) -> dict[TopicPartition, int]:
        now = self.end.ends
        steps = {tp: sign * (now[tp] - at) for tp, at in self.start.ends.items() if tp in now}
        return {tp: step for tp, step in steps.items() if step > 0}

    def says(self, mode: Mode) -> list[str]:
        """The effects on the rows, one line each; empty if there are none."""
        lines = []
        if self.again:
            lines.append(f"{_records(self.again)} {_AGAIN[mode]}")
        if self.left_out:
            lines.append(f"{_records(self.left_out)} would be left out of the table")
        return lines


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def is_for_trust(
    checkpoint: Checkpoint | None, tip: Tip | Unreadable | None, stop: Stop | None
) -> bool:
    """Whether trusting one side resolves the stop; other stops have other causes."""
    if stop is None:
        return False
    if stop.verdict is Verdict.TOPIC_RECREATED:
        return True
    return isinstance(reconcile(checkpoint, tip), Stop)


def trusting(
    checkpoint: Checkpoint | None, tip: Tip | Unreadable | None, trust: Trust, topics: TopicIds
) -> Move | Stop:
    """Where the sink continues if this side is right. A Stop: this side cannot be used."""
    outcome = reconcile(checkpoint, tip, trust)
    if isinstance(outcome, Stop):
        return outcome
    reached = outcome.tip.reached if outcome.tip else TopicOffsets()
    gone = reached.recreated(topics)
    if gone and trust is not Trust.TABLE:
        return Stop(verdict=Verdict.TOPIC_RECREATED, detail=", ".join(sorted(gone)))
    kept = reached.without(gone)
    return Move(start=_reached(tip), end=TopicOffsets(ends=kept.ends, topic_ids=kept.topic_ids))


def setting(tip: Tip | Unreadable, to: ByPartition, topics: TopicIds) -> Move | Stop:
    """Move the ends of these partitions; the others stay."""
    start = _reached(tip)
    named = {topic for topic, _ in to}
    ids = {topic: known for topic, known in topics.items() if topic in named}
    gone = start.recreated(ids)
    if gone:
        return Stop(verdict=Verdict.TOPIC_RECREATED, detail=", ".join(sorted(gone)))
    end = TopicOffsets(ends={**start.ends, **to}, topic_ids={**start.topic_ids, **ids})
    return Move(start=start, end=end)


def _reached(tip: Tip | Unreadable | None) -> TopicOffsets:
    return tip.reached if isinstance(tip, Tip) else TopicOffsets()


def commit_of(move: Move, txn_version: int) -> Commit | None:
    """The commit without rows that makes the move after `txn_version`; None if nothing moves."""
    if move.start == move.end:
        return None
    return Commit(start=move.start.ends, end=move.end, txn_version=txn_version + 1)


def of_dead_letters(move: Move, dead: TopicOffsets) -> Move:
    """The move of the dead-letter chain: its end is never before the sink's, and never moves back.

    Its rows stay in the table; when their records are read again, they are skipped by offset.
    """
    now, before = move.end.ends, move.start.ends
    ends = {
        tp: max(end, now.get(tp, end))
        for tp, end in dead.ends.items()
        if tp in now or tp not in before
    }
    ids = {**dead.topic_ids, **move.end.topic_ids}
    topics = {topic for topic, _ in ends}
    kept = {topic: known for topic, known in ids.items() if topic in topics}
    return Move(start=dead, end=TopicOffsets(ends=ends, topic_ids=kept))
