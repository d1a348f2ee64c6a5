"""The operator of a settled world gives up what a leader asks to have given up, if it was never
committed: a batch whose only copy was torn. The leader cannot know that. Nobody gives up records
that were committed: those must come back without an operator."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process
    from tests.simulation.cluster.world import World

__all__ = ["AFTER_MS", "accept_losses"]

AFTER_MS = range(5_000, 15_000, 2_000)
"""After the last fault: what repairs itself has had the time."""


def accept_losses(world: World) -> None:
    """`josefine log repair PARTITION --accept-loss` at each leader that reports such a loss."""
    for facts, name, entry in world.view.entries():
        process = world.view.processes.get(entry.leader)
        if process is None:
            continue
        tp = TopicPartition(name, facts.key[1])
        lost = [repair.lost for its_tp, repair in process.repairs if its_tp == tp and repair.lost]
        if lost and all(start >= facts.end_offset for start, _ in lost):
            world.met["loss of what was never committed accepted"] += 1
            process.event(partial(_accept, process, tp))


def _accept(process: Process, tp: TopicPartition) -> None:
    process.repairs.accept_loss(tp)
