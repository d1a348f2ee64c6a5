"""25. A share group with dead letters drops no record without one (KIP-1191): each one below its
start offset was accepted by a member, has a dead letter, or was deleted by an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import View

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["LettersAreWhole"]


class LettersAreWhole(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._lettered: set[tuple[TopicPartition, int]] = set()

    def lettered(self, tp: TopicPartition, offset: int, epoch: int, now_ms: int) -> None:
        self._lettered.add((tp, offset))

    def settled(self, world: World) -> None:
        watch = world.shares
        if watch is None or not watch.has_letters:
            return
        for tp in watch.reads:
            state = watch.state_of(tp)
            if state is None or watch.is_excused(tp) or tp not in watch.firsts:
                continue
            facts = self.view.facts((watch.key_of(tp).topic_id, tp.partition))
            first = max(watch.firsts[tp], facts.deleted_before)
            done = watch.accepted | self._lettered
            lost = [at for at in range(first, state.start_offset) if (tp, at) not in done]
            assert not lost, f"{tp}: records {lost} were dropped without a dead letter"
