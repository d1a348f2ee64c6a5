"""What a sink's start does to its table, its letters and its checkpoint, and in which order. Pure.

Runs (`run/settle_start.py`) and the model of crashes take the same steps. Each may be the last
before a crash: the next start finds what it did, and its own steps are what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.data_loss import LostRange, passing
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.exactly_once.reconcile import Checkpoint, Start


class Step(Enum):
    """In the order in which they are taken."""

    RECORD = "the lost ranges are in the table of losses"
    ANCHOR = "the sink's table says what only the checkpoint said"
    SET_ASIDE = "the checkpoint is set aside"
    PASS_LETTERS = "the letters' chain is behind what is lost"
    PASS = "the sink's chain is behind it: no start of later records it again"
    NOTE = "the new checkpoint says what it continues"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """`start`: where the sink's stream begins when all steps are taken."""

    steps: tuple[Step, ...]
    start: Start
    lost: tuple[LostRange, ...] = ()
    anchor: Commit | None = None
    passes: Commit | None = None


def opening(
    settled: Start,
    checkpoint: Checkpoint | None,
    at: TopicOffsets,
    lost: Sequence[LostRange],
    *,
    stateful: bool = False,
) -> Opening:
    """`settled`: what table and checkpoint agreed on, `at`: where that is (`losses.standing`).

    A checkpoint goes when something is lost: it would be asked for what is gone. Where only it
    knows of a partition, the table is told first; `reconcile` takes both for one place.
    """
    tip, anchor, passes, start = settled.tip, None, None, settled
    if lost:
        known = tip.reached.ends if tip else {}
        if at.ends.keys() - known.keys():
            anchor = Commit(start=at.ends, end=at, txn_version=_after(tip))
            tip = Tip(reached=at, txn_version=anchor.txn_version)
        passes = passing(tip, at, lost)
        assert passes is not None
        tip = Tip(reached=passes.end, txn_version=passes.txn_version)
        start = Start(at=tip.reached.ends, tip=tip)
    aside = checkpoint is not None and bool(settled.set_checkpoint_aside or lost)
    taken = {
        Step.RECORD: bool(lost),
        Step.ANCHOR: anchor is not None,
        Step.SET_ASIDE: aside,
        Step.PASS_LETTERS: bool(lost),
        Step.PASS: bool(lost),
        Step.NOTE: not stateful and (checkpoint is None or aside),
    }
    return Opening(
        steps=tuple(step for step in Step if taken[step]),
        start=start,
        lost=tuple(lost),
        anchor=anchor,
        passes=passes,
    )


def _after(tip: Tip | None) -> int:
    return (tip.txn_version if tip else 0) + 1
