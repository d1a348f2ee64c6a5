"""9. Once faults stop, a new proposal commits within a bounded time, and everybody agrees."""

from typing import TYPE_CHECKING

from raft import NodeId
from tests.simulation.raft.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.raft.world import World

LEADER_WITHIN_MS = 6_000
"""Twenty election timeouts; half of the nodes may have a clock that is 30 % off."""
COMMIT_WITHIN_MS = 2_000
AGREE_WITHIN_MS = 4_000


class ProgressReturns(Invariant):
    def settled(self, world: "World") -> None:
        in_time = world.run_until(lambda: world.leader() is not None, LEADER_WITHIN_MS)
        assert in_time, "no leader long after the last fault"
        payload = self._commit_one(world)
        height = next(h for h, p in self.view.payload_at.items() if p == payload)
        in_time = world.run_until(lambda: _agree(world, height), AGREE_WITHIN_MS)
        at = {m.id: m.applied for m in world.machines.values()}
        assert in_time, f"members have not all applied {height} and collected the dead: {at}"

    def _commit_one(self, world: "World") -> bytes:
        """A leader found above may yet have to learn that it is none: clients ask again."""
        end_ms = world.now_ms + LEADER_WITHIN_MS
        while world.now_ms < end_ms:
            leader = world.leader()
            if leader is None:
                world.run(20)
                continue
            payload = world.propose(leader, timeout_ms=COMMIT_WITHIN_MS)
            ended = world.run_until(lambda p=payload: p in self.view.ended, 2 * COMMIT_WITHIN_MS)  # type: ignore[misc]
            assert ended, "a new proposal never ended"
            if payload in self.view.payload_at.values():
                return payload
        raise AssertionError("no new proposal was committed long after the last fault")


def _agree(world: "World", height: int) -> bool:
    """Every member has applied that block, and nobody keeps a dead one."""
    machines = world.machines.values()
    if any(machine.node is None or machine.node.chain.has_dead for machine in machines):
        return False
    members = _members(world)
    return all(
        machine.applied >= height for id_, machine in world.machines.items() if id_ in members
    )


def _members(world: "World") -> frozenset[NodeId]:
    """As the node with the highest commit sees them."""
    statuses = [machine.node.status() for machine in world.up() if machine.node is not None]
    return max(statuses, key=lambda status: status.commit).members.all
