"""The simulated world: virtual time, a network, machines, a workload, and the checkers.

All chance comes from one seed, so a run repeats exactly; `trace` has one line per event for
comparing two runs byte for byte. After every event the invariants look at the machine it touched.
"""

import heapq
import zlib
from collections.abc import Callable
from random import Random

from raft import Config, Height, Members, Message, NodeId, Ready, Refused, Result, Role
from raft.codec import decode, encode
from tests.simulation.raft.faults import CALM, Faults
from tests.simulation.raft.invariants import ALL_INVARIANTS
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine

__all__ = ["World"]

TICK_MS = 20
PROPOSE_MS = 40


class World:
    """N machines from `seed`. `run` them for a while with faults, then `settle`."""

    def __init__(self, seed: int, *, nodes: int, faults: Faults) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.faults = faults
        self.now_ms = 0
        self.view = View()
        self.invariants = [make(self.view) for make in ALL_INVARIANTS]
        self.trace = 0
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._queued = 0
        self._blocked: set[tuple[NodeId, NodeId]] = set()
        ids = [NodeId(number) for number in range(1, nodes + 1)]
        self.machines = {id_: self._make_machine(id_, ids) for id_ in ids}
        for id_ in ids:
            self.start(id_)
            self._every(TICK_MS, lambda id_=id_: self._tick(id_))  # type: ignore[misc]
        self._every(PROPOSE_MS, self._propose)
        self._every(100, self._break_something)

    def _make_machine(self, id_: NodeId, ids: list[NodeId]) -> Machine:
        config = Config(
            node_id=id_,
            initial_voters=tuple(ids),
            cluster_id="simulated",
            heartbeat_ms=50,
            election_timeout_ms=300,
            append_bytes_max=200,
            append_inflight_max=4,
            snapshot_chunk_bytes=8,
            collect_blocks_max=3,
            apply_blocks_max=7,
        )
        skew = self.faults.clock_skew
        rate = 1 + self.rng.uniform(-skew, skew)
        return Machine(id=id_, config=config, rng=Random(self.rng.random()), clock_rate=rate)

    # -- time

    def _at(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._queued += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._queued, event))

    def _every(self, period_ms: int, event: Callable[[], None]) -> None:
        def again() -> None:
            event()
            self._at(period_ms, again)

        self._at(self.rng.randrange(period_ms), again)

    def run(self, for_ms: int) -> None:
        end_ms = self.now_ms + for_ms
        while self._queue[0][0] <= end_ms:
            self.now_ms, _, event = heapq.heappop(self._queue)
            event()
        self.now_ms = end_ms

    def note(self, *what: object) -> None:
        """One line of the trace, kept as a checksum of all lines so far."""
        self.events += 1
        self.trace = zlib.crc32(repr((self.now_ms, *what)).encode(), self.trace)

    def chance(self, per_second: float) -> bool:
        """For something that is asked ten times a second."""
        return self.rng.random() < per_second / 10

    # -- machines

    def start(self, id_: NodeId) -> None:
        machine = self.machines[id_]
        machine.start(self.now_ms)
        self.note("start", id_)
        for invariant in self.invariants:
            invariant.restarted(machine)
        self._pump(machine)

    def crash(self, id_: NodeId) -> None:
        self.note("crash", id_)
        self.machines[id_].crash()

    def up(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.node is not None]

    def leader(self) -> Machine | None:
        """The leader of the highest term."""
        leading = [m for m in self.up() if m.node and m.node.status().role is Role.LEADER]
        return max(leading, key=lambda m: m.node.status().term, default=None)  # type: ignore[union-attr]

    def _tick(self, id_: NodeId) -> None:
        machine = self.machines[id_]
        if machine.node is not None:
            machine.node.tick(machine.now_ms(self.now_ms))
            self._pump(machine)

    def _pump(self, machine: Machine) -> None:
        """Give the machine's disk its next work, if it is idle."""
        node = machine.node
        assert node is not None
        while machine.busy is None and node.has_ready():
            ready = machine.busy = node.ready()
            self._write_and_apply(machine, ready)
            batch, life = ready.batch, machine.life
            if batch is None or not batch.must_sync:
                self._finish(machine, life)
                continue
            slow = self.rng.random() < self.faults.disk_slow
            delay_ms = self.rng.randrange(500) if slow else self.rng.randrange(4)
            self._at(delay_ms, lambda life=life: self._finish_and_pump(machine, life))  # type: ignore[misc]
        self._check(machine)

    def _write_and_apply(self, machine: Machine, ready: Ready) -> None:
        if ready.batch is not None:
            machine.write(ready.batch)
            if ready.installed is None:  # which starts a new chain: no question of dead or live
                self.view.removed.update(ready.batch.removed)
        if ready.installed is not None:
            machine.install(ready.installed.data)
        for block in ready.committed:
            machine.apply(block)
            for invariant in self.invariants:
                invariant.applied(machine, block)
        for outcome in ready.outcomes:
            self.note("outcome", machine.id, outcome.number, outcome.result.name, outcome.block_id)
            self.view.end(machine.id, outcome)

    def _finish_and_pump(self, machine: Machine, life: int) -> None:
        if machine.life == life:
            self._finish(machine, life)
            self._pump(machine)

    def _finish(self, machine: Machine, life: int) -> None:
        ready, machine.busy = machine.busy, None
        assert ready is not None
        assert machine.node is not None
        if ready.batch is not None:
            machine.sync(ready.batch)
        for message in ready.messages:
            for invariant in self.invariants:
                invariant.sent(machine, message)
            self._send(message)
        machine.node.advance()

    def _check(self, machine: Machine) -> None:
        assert machine.node is not None
        status = machine.node.status()
        for invariant in self.invariants:
            invariant.changed(machine, status)

    # -- network

    def _send(self, message: Message) -> None:
        rng, faults = self.rng, self.faults
        if (message.sender, message.to) in self._blocked or rng.random() < faults.message_drop:
            return
        data = encode(message)
        for _ in range(2 if rng.random() < faults.message_duplicate else 1):
            late = rng.random() < faults.message_delay
            delay_ms = rng.randrange(1000) if late else rng.randrange(1, 10)
            self._at(delay_ms, lambda: self._deliver(data))

    def _deliver(self, data: bytes) -> None:
        message = decode(data)
        machine = self.machines[message.to]
        if machine.node is not None and (message.sender, message.to) not in self._blocked:
            self.note(type(message).__name__, message.sender, message.to, message.term)
            machine.node.step(message, machine.now_ms(self.now_ms))
            self._pump(machine)

    # -- what happens to it

    def _propose(self) -> None:
        up = self.up()
        if up:
            self.propose(self.rng.choice(up))

    def propose(self, machine: Machine, timeout_ms: int = 2000) -> bytes:
        """A proposal with a payload of its own, at this machine."""
        assert machine.node is not None
        payload = b"proposal %d" % self.view.next_proposal()
        now_ms = machine.now_ms(self.now_ms)
        try:
            proposal = machine.node.propose(payload, now_ms, now_ms + timeout_ms)
        except Refused:
            return payload
        self.view.begin(machine.id, proposal.number, payload)
        self._pump(machine)
        return payload

    def _break_something(self) -> None:
        """Ten times a second: maybe a fault, maybe the end of one."""
        faults, rng = self.faults, self.rng
        ids = list(self.machines)
        victim = rng.choice(ids)
        others = [id_ for id_ in ids if id_ != victim]
        if self.chance(faults.cut_per_second):
            self._blocked |= {(victim, o) for o in others} | {(o, victim) for o in others}
        if self.chance(faults.one_way_per_second):
            to_others = rng.random() < 0.5
            self._blocked |= {(victim, o) if to_others else (o, victim) for o in others}
        if self.chance(faults.heal_per_second):
            self._blocked.clear()
        machine = self.machines[victim]
        if machine.node is not None and self.chance(faults.crash_per_second):
            self.crash(victim)
        elif machine.node is None and self.chance(faults.restart_per_second):
            self.start(victim)
        self._operate(rng.choice(ids))

    def _operate(self, id_: NodeId) -> None:
        """Snapshots, transfers and changes of members, as an operator would."""
        faults, machine = self.faults, self.machines[id_]
        if machine.node is None:
            return
        if machine.busy is None and self.chance(faults.snapshot_per_second):
            machine.node.compact(machine.snapshot())
        now_ms = machine.now_ms(self.now_ms)
        try:
            if self.chance(faults.transfer_per_second):
                machine.node.transfer_leadership(self.rng.choice(list(self.machines)), now_ms)
            if self.chance(faults.member_change_per_second):
                machine.node.change_members(self._other_members(machine), now_ms, now_ms + 2000)
        except Refused:
            pass
        self._pump(machine)

    def _other_members(self, machine: Machine) -> Members:
        assert machine.node is not None
        members = machine.node.status().members
        one = self.rng.choice(list(self.machines))
        if one in members.voters:
            return Members(voters=members.voters - {one}, learners=members.learners | {one})
        return Members(voters=members.voters | {one}, learners=members.learners - {one})

    # -- the end

    def settle(self, within_ms: int = 10_000) -> None:
        """All faults stop: everybody must agree again, and a new proposal commit, in time."""
        self.faults = CALM
        self._blocked.clear()
        for id_, machine in self.machines.items():
            if machine.node is None:
                self.start(id_)
        self.run(within_ms // 2)
        leader = self.leader()
        assert leader is not None, "no leader long after the last fault"
        payload = self.propose(leader)
        self.run(within_ms // 2)
        assert payload in self.view.committed_payloads(), "a new proposal did not commit"
        self._check_agreement(payload)
        for invariant in self.invariants:
            invariant.settled(list(self.machines.values()))

    def _check_agreement(self, payload: bytes) -> None:
        """Every member has applied at least up to that proposal."""
        height = next(h for h, p in self.view.payload_at.items() if p == payload)
        for machine in self.up():
            assert machine.node is not None
            members = max((m.node.status() for m in self.up() if m.node), key=lambda s: s.commit)
            if machine.id in members.members.all:
                assert machine.applied >= Height(height), f"node {machine.id} lags at the end"

    def results(self) -> dict[Result, int]:
        return self.view.count_results()
