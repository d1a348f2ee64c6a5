"""15. No group is stuck: once faults stop it is stable with all its members, who own everything,
each partition once, and what they commit is acknowledged; the coordinator knows what the topic
says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from josefine_broker.engine.groups.consumer.states import ConsumerGroupState
from josefine_broker.engine.groups.coordinator import GroupCoordinator
from josefine_broker.engine.groups.states import GroupState
from tests.simulation.cluster.group_names import CONSUMERS
from tests.simulation.cluster.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.cluster.group_watch import GroupWatch
    from tests.simulation.cluster.world import World

__all__ = ["GroupsSettle"]

STABLE = frozenset({GroupState.STABLE, ConsumerGroupState.STABLE})
STABLE_WITHIN_MS = 15_000
COMMITTED_WITHIN_MS = 8_000


class GroupsSettle(Invariant):
    def settled(self, world: World) -> None:
        watch = world.groups
        if watch is None:
            return
        groups = [
            each
            for each in watch.groups
            # Of two processes of one static member each may have fenced the other: none is left.
            if watch.of(each)
            and not self.view.groups.is_excused(each)
            and (each != CONSUMERS or self.view.image.serves_consumer_groups)
        ]
        for group in groups:
            is_whole = partial(self._is_whole, watch, group)
            stable = world.scheduler.run_until(is_whole, STABLE_WITHIN_MS)
            assert stable, f"long after the last fault group {group}: {self._missing(watch, group)}"
            world.met["group settled"] += 1
        watch.is_committing = True
        before = dict(self.view.groups.acknowledged)

        def all_committed() -> bool:
            after = self.view.groups.acknowledged
            places = [(group, tp) for group in groups for tp in watch.reads]
            return all(after.get(each, 0) > before.get(each, 0) for each in places)

        committed = world.scheduler.run_until(all_committed, COMMITTED_WITHIN_MS)
        assert committed, "long after the last fault a group's offsets are not committed"
        watch.is_committing = False

    def _is_whole(self, watch: GroupWatch, group: str) -> bool:
        return not self._missing(watch, group)

    def _missing(self, watch: GroupWatch, group: str) -> str:
        """What a group lacks; empty: nothing."""
        members = watch.of(group)
        waiting = [str(each) for each in members if not each.is_stable]
        if waiting:
            return f"{waiting} have no assignment"
        if len({each.generation for each in members}) > 1:
            return f"generations {[each.generation for each in members]}"
        owned = sorted(tp for each in members for tp in each.owned)
        if owned != sorted(watch.reads):
            return f"owned are {owned}"
        coordinator = self._coordinator(group)
        view = None if coordinator is None else coordinator.view(group)
        if coordinator is None or view is None or view.state not in STABLE:
            return f"its coordinator has {view}"
        consumers = coordinator.consumers.get(group)
        known = {each.member_id for each in view.members} | set(
            consumers.members if consumers else ()
        )
        if known != {each.member_id for each in members}:
            return f"its coordinator knows {sorted(known)}"
        told = coordinator.offsets.committed(group)
        for tp in watch.reads:
            log = self.view.groups.log.get((group, tp))
            if log and (tp not in told or told[tp].metadata != log[-1]):
                return f"its coordinator has {told.get(tp)} for {tp}, committed is {log[-1]}"
        return ""

    def _coordinator(self, group: str) -> GroupCoordinator | None:
        process = self.view.processes.get(self.view.groups.coordinator(group)[0])
        return None if process is None else process.ctx.clients.groups.coordinator
