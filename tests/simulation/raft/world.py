"""The simulated world: virtual time, a network, machines, a workload, faults, and the checkers.

All chance comes from one seed, so a run repeats exactly. A node is ticked when it asks for it
(`wake_at_ms`) and a little late, as a host does.
"""

import heapq
from collections.abc import Callable
from random import Random

from raft import Config, Members, Message, NodeId, Refused, Result, Role
from raft.codec import decode, encode
from raft.messages import SnapshotChunk
from tests.simulation.chain_damage import spoilt
from tests.simulation.raft.cluster import Cluster
from tests.simulation.raft.faults import CALM, Faults
from tests.simulation.raft.machine import Facts, Machine
from tests.simulation.raft.network import Network

__all__ = ["World"]

PROPOSE_MS = 40
READ_MS = 200
FAULT_MS = 100
"""Every so often something may break, heal, or be changed by an operator."""
WIRE_EVERY = 8
"""Every so many messages go through their encoding; codec.py has its own proof."""


class World(Cluster):
    """N machines from `seed`. `run` them for a while with faults, then `settle`."""

    def __init__(self, seed: int, *, nodes: int, faults: Faults) -> None:
        super().__init__()
        self.seed = seed
        self.rng = Random(seed)
        self.faults = faults
        self.network = Network(Random(self.rng.random()), self.met)
        # Of their own: lives from before these faults came stay as they were.
        self._gone_rng, self._late_rng = Random(seed + 1), Random(seed + 2)
        self._rot_rng = Random(seed + 3)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._queued = 0
        self._sent_count = 0
        self._chunks_from: dict[NodeId, NodeId] = {}
        """Who sent each machine the last chunk of a snapshot."""
        ids = [NodeId(number) for number in range(1, nodes + 1)]
        # Sometimes the last ones have to be taken in by an operator.
        joiners = self.rng.randrange(nodes // 2) if self.rng.random() < 0.2 and nodes > 3 else 0
        for id_ in ids:
            self.machines[id_] = self._make_machine(id_, ids[: nodes - joiners])
        self.met["clock rate skewed"] += faults.clock_skew > 0
        for id_ in ids:
            self.start(id_)
        self._every(PROPOSE_MS, self._propose)
        self._every(READ_MS, self._read)
        self._every(FAULT_MS, self._break_something)

    def _make_machine(self, id_: NodeId, founders: list[NodeId]) -> Machine:
        config = Config(
            node_id=id_,
            initial_voters=tuple(founders) if id_ in founders else (),
            cluster_id=f"proposed by {id_}",
            format=self._late_rng.choice((1, 2)),
            heartbeat_ms=50,
            election_timeout_ms=300,
            append_bytes_max=200,
            append_inflight_max=4,
            snapshot_chunk_bytes=8,
            forwarded_max=5,
            tail_blocks_max=3,
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
        queue, pop = self._queue, heapq.heappop
        while queue[0][0] <= end_ms:
            self.now_ms, _, event = pop(queue)
            event()
        self.now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], within_ms: int) -> bool:
        """Run until it holds, looking every 20 ms; does it hold in time?"""
        for _ in range(within_ms // 20):
            if condition():
                return True
            self.run(20)
        return condition()

    def chance(self, per_second: float) -> bool:
        """For something that is asked once in FAULT_MS."""
        return self.rng.random() < per_second * FAULT_MS / 1000

    # -- what a cluster leaves open

    def begin_sync(self, machine: Machine) -> None:
        rng, life = self.rng, machine.life
        delay_ms = int(rng.random() * 4)
        if rng.random() < self.faults.disk_slow:
            self.met["slow disk"] += 1
            delay_ms = int(rng.random() * 500)
        self._at(delay_ms, lambda: self.finish_and_pump(machine, life))

    def send(self, message: Message) -> None:
        link = message.sender, message.to
        times = self.network.arrivals(link, self.now_ms, self.link_faults(link))
        if not times:
            return
        self._sent_count += 1
        if self._sent_count % WIRE_EVERY == 0:
            message = decode(encode(message))
        for time_ms in times:
            self._at(time_ms - self.now_ms, lambda: self._deliver(message))

    def link_faults(self, link: tuple[NodeId, NodeId]) -> Faults:
        """What may become of a message on this link."""
        return self.faults

    def _deliver(self, message: Message) -> None:
        machine = self.machines[message.to]
        node = machine.node
        if node is None:
            return
        if self.now_ms < machine.paused_until_ms:
            self._at(machine.paused_until_ms - self.now_ms, lambda: self._deliver(message))
            return
        self.note(f"{message.sender}>{message.to} {type(message).__name__} {message.term}")
        if type(message) is SnapshotChunk:
            self._count_chunk(machine, message)
        node.step(message, machine.now_ms(self.now_ms))
        self.pump(machine)

    def _count_chunk(self, machine: Machine, chunk: SnapshotChunk) -> None:
        self.met["snapshot chunk"] += 1
        assert machine.node is not None
        here = machine.node._core.archive.incoming
        if here is not None and here.source[1] == chunk.last and here.data:
            sender = self._chunks_from.get(machine.id)
            self.met["snapshot of another leader, same block"] += sender != chunk.sender
        self._chunks_from[machine.id] = chunk.sender

    def pump(self, machine: Machine) -> None:
        super().pump(machine)
        if machine.node is not None:
            self._plan_tick(machine)

    def _plan_tick(self, machine: Machine) -> None:
        assert machine.node is not None
        clock_ms = machine.node.wake_at_ms()
        if clock_ms is None:
            return
        due_ms = max(machine.world_ms(clock_ms), machine.paused_until_ms)
        if machine.wake_ms is not None and machine.wake_ms <= due_ms:
            return  # an earlier one is planned, and plans the next
        # A due time that has passed is not asked for again before the next millisecond.
        machine.wake_ms = max(due_ms, self.now_ms + 1) + int(self.rng.random() * 3)
        life, wake_ms = machine.life, machine.wake_ms
        self._at(wake_ms - self.now_ms, lambda: self._tick(machine, life, wake_ms))

    def _tick(self, machine: Machine, life: int, wake_ms: int) -> None:
        if machine.life != life or machine.wake_ms != wake_ms or machine.node is None:
            return
        machine.wake_ms = None
        if self.now_ms < machine.paused_until_ms:
            self._plan_tick(machine)
            return
        self.events += 1
        machine.node.tick(machine.now_ms(self.now_ms))
        self.pump(machine)

    def _count_change(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        super()._count_change(machine, facts, before)
        if facts[0] is not Role.LEADER or (before is not None and before[0] is Role.LEADER):
            return
        if facts[3].height == 0:
            self._maybe_break_birth(machine)
        elif self._late_rng.random() < self.faults.change_hasty:
            self.met["membership change asked of a new leader"] += 1
            life = machine.life
            self._at(self._late_rng.randrange(5), lambda: self._ask_hastily(machine, life))

    def _maybe_break_birth(self, machine: Machine) -> None:
        """It has just made the block that names the cluster, and has not synced it yet."""
        rng = self._late_rng
        if rng.random() >= self.faults.birth_broken:
            return
        self.met["birth broken"] += 1
        self._leave_alone(machine)

    def _leave_alone(self, machine: Machine) -> None:
        """With the block that it has just made."""
        if self._late_rng.random() < 0.5:
            others = [id_ for id_ in self.machines if id_ != machine.id]
            self.network.split([machine.id], others)
        else:  # before it is synced, or before it is sent
            machine.disk.crash_at = machine.disk.operations + self._late_rng.randrange(3)

    def _ask_hastily(self, machine: Machine, life: int) -> None:
        if machine.node is None or machine.life != life or self.now_ms < machine.paused_until_ms:
            return
        self._change_members(machine, self._late_rng)
        self.pump(machine)

    # -- what hosts are told of each other

    def crash(self, id_: NodeId) -> None:
        super().crash(id_)
        for machine in self.up():
            if self._gone_rng.random() < self.faults.gone_told:
                life, delay_ms = machine.life, 1 + self._gone_rng.randrange(100)
                self._at(delay_ms, lambda m=machine, of=life: self._tell_gone(m, of, id_))  # type: ignore[misc]

    def _tell_gone(self, machine: Machine, life: int, peer: NodeId) -> None:
        """Unless either has started anew meanwhile, or nothing runs at all just now."""
        node = machine.node
        if node is None or machine.life != life or self.now_ms < machine.paused_until_ms:
            return
        if node.status().leader == peer:
            wrongly = "" if self.machines[peer].node is None else "wrongly "
            self.met[f"leader {wrongly}said to be gone"] += 1
        node.peer_gone(peer, machine.now_ms(self.now_ms))
        self.pump(machine)

    def _tell_wrongly(self) -> None:
        machine = self._gone_rng.choice(list(self.machines.values()))
        leader = None if machine.node is None else machine.node.status().leader
        if leader is not None and leader != machine.id:
            self._tell_gone(machine, machine.life, leader)

    # -- clients and operators

    def _awake(self) -> list[Machine]:
        return [m for m in self.up() if m.paused_until_ms <= self.now_ms]

    def _propose(self) -> None:
        rng, awake = self.rng, self._awake()
        if awake:
            machine = rng.choice(awake)
            for _ in range(4 if rng.random() < 0.1 else 1):
                if machine.node is not None:  # it may crash in between
                    self.propose(machine, 200 + int(rng.random() * 1800))

    def _read(self) -> None:
        """A client asks a leader, or who was one, or anybody."""
        awake = self._awake()
        leading = [machine for machine in awake if machine.look()[0] is Role.LEADER]
        if awake:
            self.read(self.rng.choice(leading if leading and self.rng.random() < 0.5 else awake))

    def _break_something(self) -> None:
        """Ten times a second: maybe a fault, maybe the end of one."""
        faults, rng = self.faults, self.rng
        ids = list(self.machines)
        # A transfer is short: aim at it, or hardly any fault would meet one.
        receiving = [id_ for id_ in ids if self.machines[id_].is_receiving_snapshot()]
        victim = rng.choice(receiving or ids)
        if len(ids) > 1:
            self._break_links(victim, ids)
        if self._gone_rng.random() < faults.gone_wrongly_told_per_second * FAULT_MS / 1000:
            self._tell_wrongly()
        self._break_sender()
        machine = self.machines[victim]
        self._damage_disks()
        if machine.node is None:
            if self.chance(faults.restart_per_second):
                self.start(victim)
        elif self.chance(faults.crash_per_second):
            self.crash(victim)
        elif self.chance(faults.crash_in_write_per_second):
            machine.disk.crash_at = machine.disk.operations + rng.randrange(4)
        elif self.chance(faults.pause_per_second):
            self.met["process paused"] += 1
            machine.paused_until_ms = self.now_ms + rng.randrange(1000)
        self._operate()

    def _damage_disks(self) -> None:
        """Of machines that are down, what is known to be durable there."""
        rng = self._rot_rng
        for machine in self.machines.values():
            if machine.node is not None or machine.chain.is_spoilt:
                continue
            if rng.random() < self.faults.disk_damaged_per_second * FAULT_MS / 1000:
                found = spoilt(machine.disk, rng)
                if found is not None:
                    machine.disk = machine.chain.spoil(machine.disk, found)
                    self.met[found.what] += 1
                    self.note(f"{found.what} {machine.id}")

    def refused(self, machine: Machine) -> None:
        self._at(100 + self._rot_rng.randrange(1_000), machine.restore)

    def _break_links(self, victim: NodeId, ids: list[NodeId]) -> None:
        faults, rng = self.faults, self.rng
        if self.chance(faults.partition_per_second):
            self._count_fault()
            self.met["full partition"] += 1
            rng.shuffle(ids)
            size = rng.randrange(1, len(ids))
            self.network.split(ids[:size], ids[size:])
        if self.chance(faults.one_way_per_second):
            self.met["one-way partition"] += 1
            others = [id_ for id_ in ids if id_ != victim]
            muted = ([victim], others) if rng.random() < 0.5 else (others, [victim])
            self.network.mute(*muted)
        if self.chance(faults.heal_per_second):
            self.network.heal()

    def _operate(self) -> None:
        """Snapshots, transfers and changes of members, as an operator would."""
        faults, awake = self.faults, self._awake()
        if not awake:
            return
        idle = self.rng.choice(awake)
        if idle.busy is None and self.chance(faults.snapshot_per_second):
            assert idle.node is not None
            for each in self._making_snapshots(idle):
                assert each.node is not None
                self.met["snapshot made"] += 1
                each.node.compact(each.snapshot())
                self.pump(each)
        machine = self.leader()
        if machine is not None and machine.paused_until_ms <= self.now_ms:
            self._ask_leader(machine)

    def _making_snapshots(self, first: Machine) -> list[Machine]:
        if self._late_rng.random() >= self.faults.snapshot_of_all:
            return [first]
        idle = [machine for machine in self._awake() if machine.busy is None]
        return [machine for machine in idle if machine.applied == first.applied]

    def _break_sender(self) -> None:
        """What it has sent of its snapshot is there, the rest comes from another leader."""
        leader = self.leader()
        if leader is None or not any(machine.is_receiving_snapshot() for machine in self.up()):
            return
        rng = self._late_rng
        if rng.random() < self.faults.sender_breaks_per_second * FAULT_MS / 1000:
            self.met["sender of a snapshot broken"] += 1
            if rng.random() < 0.5:
                self.crash(leader.id)
            else:
                self.network.split([leader.id], [id_ for id_ in self.machines if id_ != leader.id])

    def _ask_leader(self, machine: Machine) -> None:
        faults, node = self.faults, machine.node
        assert node is not None
        now_ms = machine.now_ms(self.now_ms)
        try:
            if self.chance(faults.transfer_per_second):
                node.transfer_leadership(self.rng.choice(list(self.machines)), now_ms)
                self.met["leadership transfer"] += 1
        except Refused:
            pass
        if self.chance(faults.member_change_per_second):
            self._change_members(machine, self.rng)
        if self._late_rng.random() < faults.more_changes_per_second * FAULT_MS / 1000:
            self._change_members(machine, self._late_rng)
        self.pump(machine)

    def _change_members(self, machine: Machine, rng: Random) -> None:
        assert machine.node is not None
        wanted, now_ms = self._other_members(machine, rng), machine.now_ms(self.now_ms)
        try:
            machine.node.change_members(wanted, now_ms, now_ms + 2000)
        except Refused:
            return
        self.met["membership change"] += 1
        if self._late_rng.random() < self.faults.change_broken:
            self.met["leader alone with a membership change"] += 1
            self._leave_alone(machine)

    def _other_members(self, machine: Machine, rng: Random) -> Members:
        """One machine becomes a voter, a learner, or is out."""
        assert machine.node is not None
        members = machine.node.status().members
        one = frozenset({rng.choice(list(self.machines))})
        voters, learners = members.voters - one, members.learners - one
        kind = rng.random()
        if one <= members.voters:  # out of three, one goes altogether
            return Members(voters=voters, learners=learners if kind < 0.3 else learners | one)
        if kind < 0.7:
            return Members(voters=voters | one, learners=learners)
        return Members(voters=voters, learners=learners | one)

    # -- the end

    def settle(self) -> None:
        """All faults stop: everybody must agree again, and a new proposal commit, in time."""
        self.heal()
        for checker in self._settled:
            checker(self)

    def heal(self) -> None:
        """All faults stop, and every machine runs."""
        self.faults = CALM
        self.network.heal()
        for id_, machine in self.machines.items():
            machine.paused_until_ms = 0
            machine.restore()
            machine.disk.crash_at = machine.wake_ms = None
            if machine.node is None:
                self.start(id_)
            else:
                self._plan_tick(machine)

    def results(self) -> dict[Result, int]:
        return self.view.count_results()
