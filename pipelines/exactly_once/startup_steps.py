"""Startup steps of a sink: changes to its table, dead letters and checkpoint, in order. Pure.

Runs (`run/settle_start.py`) and the crash model take the same steps. A crash may follow any step:
the next start finds the finished steps in table and checkpoint and plans only the remaining ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.checkpoint_start import Checkpoint, Start
from pipelines.exactly_once.data_loss import LostRange, passing
from pipelines.exactly_once.offset_chain import Commit, Tip


class Step(Enum):
    """One startup step; its value is the state after it. In the order of execution."""

    RECORD = "the lost ranges are in the table of losses"
    ANCHOR = "the sink's table records partitions that only the checkpoint had"
    SET_ASIDE = "the checkpoint is set aside"
    PASS_LETTERS = "the dead-letter chain is past the lost ranges"
    PASS = "the sink's chain is past the lost ranges: no later start records them again"
    NOTE = "the new checkpoint records the end offsets that it continues"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The planned steps. `start`: where the sink's stream starts after all of them."""

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
    """Plan the steps. `settled`: the start on which table and checkpoint agree; `at`: its offsets
    (`data_loss.standing`).

    A loss sets the checkpoint aside, because Spark would read the lost range from it. A partition
    that only the checkpoint has is committed to the table before that (ANCHOR): a crash between
    the two steps would lose its offset otherwise. `reconcile` accepts both states as equal.
    """
    tip, anchor, passes, start = settled.tip, None, None, settled
    # `tip` moves along with each commit planned here: the next one has the transaction version
    # after it.
    if lost:
        known = tip.reached.ends if tip else {}
        if at.ends.keys() - known.keys():
            anchor = Commit(start=at.ends, end=at, txn_version=_after(tip))
            tip = Tip(reached=at, txn_version=anchor.txn_version)
        passes = passing(tip, at, lost)
        assert passes is not None
        tip = Tip(reached=passes.end, txn_version=passes.txn_version)
        start = Start(at=tip.reached.ends, tip=tip)
    # A checkpoint that is not there cannot be set aside: a start may repeat after that step.
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
