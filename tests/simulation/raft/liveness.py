"""Liveness: a majority is whole, everything else stays broken for ever, and the majority works.

The idea is TigerBeetle's (VOPR's liveness mode). `settle` heals everybody, so it cannot see a
cluster that waits for a node that never returns. Here the machines of a core run, hear each other
and have good disks; each other machine gets one lasting fault, drawn by the seed. The core must
elect a leader, commit new proposals and apply them within a bound. In half of the runs the core's
machines run out of space, quota or file handles first, one after another and for a while each.

A machine that hears a part of the core only is not among the faults: Raft with pre-vote lets such
a leader commit through that part, and starves the rest of the core for as long as this lasts.
"""

import errno
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random

from raft import Members, MemoryFiles, NodeId
from tests.simulation.raft.faults import CALM, Faults
from tests.simulation.raft.machine import Machine
from tests.simulation.raft.world import World

__all__ = ["LASTING", "LiveWorld"]

WORKS_WITHIN_MS = 12_000
"""Forty election timeouts; clocks may be 30 % off, and an outsider may win elections in vain."""
COMMITS_IN_A_ROW = 3
PROPOSE_EVERY_MS = 100
TURN_MS = 500
"""Every so often a machine that comes and goes does so."""
LOSSY = replace(
    CALM, message_drop=0.2, message_duplicate=0.2, message_delay=0.2, message_reorder=0.5
)
FOR_EVER_MS = 10**12
LIMIT_MS = 1_000
"""For so long at most a machine of the core has no space, no quota, or no file handle."""
ROOM_CHECK_MS = 100
"""How often a write that met a limit is repeated, as a broker does."""
FOR_EVER = replace(CALM, heal_per_second=0.0, restart_per_second=0.0)
"""What is broken stays so."""


class LiveWorld(World):
    """A world that ends with a core, instead of healing."""

    def __init__(self, seed: int, *, nodes: int, faults: Faults) -> None:
        super().__init__(seed, nodes=nodes, faults=faults)
        self.core: frozenset[NodeId] = frozenset()
        self._lossy: set[NodeId] = set()
        self._live_rng = Random(seed + 4)
        self._limits_rng = Random(seed + 14)

    def link_faults(self, link: tuple[NodeId, NodeId]) -> Faults:
        return LOSSY if self._lossy & set(link) else self.faults

    def settle(self) -> None:
        """Choose the core, break the others, and wait until the core works."""
        faults_of_life = self.faults
        self.heal()
        self.faults = FOR_EVER
        self.core = self._draw_core()
        self.note(f"core {sorted(self.core)}")
        for id_ in sorted(self.machines.keys() - self.core):
            name = self._live_rng.choice(list(LASTING))
            self.met[name] += 1
            self.note(f"{id_} {name}")
            LASTING[name](self, self.machines[id_], faults_of_life)
        if self._limits_rng.random() < 0.5:
            for number, id_ in enumerate(sorted(self.core)):
                self._at(1 + number * LIMIT_MS, lambda id_=id_: self._limit(self.machines[id_]))  # type: ignore[misc]
        self._must_work()

    def _limit(self, machine: Machine) -> None:
        rng, disk = self._limits_rng, machine.disk
        code = rng.choice((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE))
        if code in (errno.ENOSPC, errno.EDQUOT):
            disk.full_at, disk.full_errno = disk.growths + rng.randrange(3), code
        else:
            disk.no_handle_at, disk.no_handle_errno = disk.handles, code
        self.met["core met a limit"] += 1
        self.note(f"{machine.id} {errno.errorcode[code]}")
        self._at(1 + rng.randrange(LIMIT_MS), lambda: _lift(disk))

    def wait_for_room(self, machine: Machine) -> None:
        life = machine.life
        self._at(ROOM_CHECK_MS, lambda: self.write_again(machine, life))

    def _draw_core(self) -> frozenset[NodeId]:
        """A majority of every membership that may be in force, and hardly more."""
        memberships = _memberships(self.up())
        ids = sorted(self.machines)
        self._live_rng.shuffle(ids)
        core: set[NodeId] = set()
        for id_ in ids:
            if all(len(core & each.voters) >= each.majority for each in memberships):
                break
            if any(
                id_ in each.voters and len(core & each.voters) < each.majority
                for each in memberships
            ):
                core.add(id_)
        return frozenset(core)

    # -- what becomes of the others

    def cut_off(self, machine: Machine, _: Faults) -> None:
        self.network.split([machine.id], self.core)

    def deafen(self, machine: Machine, _: Faults) -> None:
        self.network.mute(self.core, [machine.id])

    def silence(self, machine: Machine, _: Faults) -> None:
        self.network.mute([machine.id], self.core)

    def lose_messages(self, machine: Machine, _: Faults) -> None:
        self._lossy.add(machine.id)

    def stay_down(self, machine: Machine, _: Faults) -> None:
        self.crash(machine.id)

    def fail_writes(self, machine: Machine, _: Faults) -> None:
        """Its process ends with its next write, and nobody starts it."""
        machine.disk.fails = lambda _: True

    def stand_still(self, machine: Machine, _: Faults) -> None:
        machine.paused_until_ms = FOR_EVER_MS

    def come_and_go(self, machine: Machine, faults: Faults) -> None:
        """It loses power again and again, with what that costs in this life."""
        if machine.node is None:
            self.start(machine.id)
        elif self._live_rng.random() < 0.5:
            calm, self.faults = self.faults, faults
            self.crash(machine.id)
            self.faults = calm
        delay_ms = 1 + self._live_rng.randrange(2 * TURN_MS)
        self._at(delay_ms, lambda: self.come_and_go(machine, faults))

    # -- what the core must do

    def _must_work(self) -> None:
        """Raises AssertionError if the core does not commit, or does not apply what it did."""
        end_ms, committed = self.now_ms + WORKS_WITHIN_MS, 0
        while committed < COMMITS_IN_A_ROW:
            payload = self._propose_in_core()
            self.run_until(lambda p=payload: self._has_ended(p), PROPOSE_EVERY_MS)  # type: ignore[misc]
            committed += payload in self.view.payload_at.values()
            assert self.now_ms < end_ms, f"the core committed {committed} proposals in time"
        height = self.view.committed_max
        in_time = self.run_until(lambda: self._core_agrees(height), end_ms - self.now_ms)
        at = {id_: self.machines[id_].applied for id_ in sorted(self.core)}
        assert in_time, f"the core has not applied {height} everywhere: {at}"
        self.met["core worked"] += 1

    def _propose_in_core(self) -> bytes:
        """At any machine of it: one that does not lead forwards it."""
        machine = self.machines[self._live_rng.choice(sorted(self.core))]
        return self.propose(machine, timeout_ms=WORKS_WITHIN_MS)

    def _has_ended(self, payload: bytes) -> bool:
        return payload in self.view.ended

    def _core_agrees(self, height: int) -> bool:
        machines = [self.machines[id_] for id_ in self.core]
        newest = max(_memberships(machines), key=lambda each: len(each.all & self.core))
        return all(m.applied >= height for m in machines if m.id in newest.all)


Break = Callable[[LiveWorld, Machine, Faults], None]

LASTING: Mapping[str, Break] = {
    "outsider cut off": LiveWorld.cut_off,
    "outsider hears nothing": LiveWorld.deafen,
    "outsider is not heard": LiveWorld.silence,
    "outsider loses messages": LiveWorld.lose_messages,
    "outsider stays down": LiveWorld.stay_down,
    "outsider stands still": LiveWorld.stand_still,
    "outsider comes and goes": LiveWorld.come_and_go,
    "outsider's disk takes no writes": LiveWorld.fail_writes,
}
"""What is counted → what befalls a machine outside the core, for ever."""


def _lift(disk: MemoryFiles) -> None:
    disk.full_at = disk.no_handle_at = None


def _memberships(machines: Iterable[Machine]) -> list[Members]:
    """Those of the newest commit that is known, and all that may replace it."""
    cores = [machine.node._core for machine in machines if machine.node is not None]
    newest = max(cores, key=lambda core: core.chain.commit)
    committed, _ = newest.history.at(newest.chain.commit.height)
    return [committed, *(core.members for core in cores if core.chain.head > newest.chain.commit)]
