"""Machines under checkers: the host's work for each, and an eye on every step of it.

`world.py` drives it by chance, `lab.py` by commands. What differs is when a sync ends and what
becomes of a message: `begin_sync` and `send` are theirs.
"""

import zlib
from collections import Counter
from collections.abc import Callable

from raft import CorruptStore, Message, NodeId, Ready, Refused, Role, StoreFailed, StoreFull
from raft.files import Crash
from tests.simulation.raft.faults import CALM, Faults
from tests.simulation.raft.invariants import ALL_INVARIANTS
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Facts, Machine

__all__ = ["Cluster"]

READ_TIMEOUT_MS = 500


class Cluster:
    """Mutable; `trace` is a checksum over a line per event, for comparing two runs."""

    def __init__(self, *onlookers: Callable[[View], Invariant]) -> None:
        self.now_ms = 0
        self.machines: dict[NodeId, Machine] = {}
        self.faults: Faults = CALM
        self.met: Counter[str] = Counter()
        self.view = View()
        self.trace = 0
        self.events = 0
        self.trace_to: Callable[[str], None] | None = None
        makers: tuple[Callable[[View], Invariant], ...] = (*ALL_INVARIANTS, *onlookers)
        invariants = [make(self.view) for make in makers]
        self._restarted = _overriding(invariants, "restarted")
        self._changed = _overriding(invariants, "changed")
        self._written = _overriding(invariants, "written")
        self._synced = _overriding(invariants, "synced")
        self._sent = _overriding(invariants, "sent")
        self._applied = _overriding(invariants, "applied")
        self._told = _overriding(invariants, "told")
        self._answered = _overriding(invariants, "answered")
        self._settled = _overriding(invariants, "settled")

    # -- for subclasses

    def begin_sync(self, machine: Machine) -> None:
        """The disk has work: `finish` and then `pump` are due when it is done."""
        raise NotImplementedError

    def send(self, message: Message) -> None:
        """A message leaves its machine."""
        raise NotImplementedError

    def refused(self, machine: Machine) -> None:
        """It does not start: somebody has to restore its disk."""
        raise NotImplementedError

    # -- what happens

    def note(self, what: str) -> None:
        """One line of the trace."""
        self.events += 1
        line = f"{self.now_ms} {what}"
        self.trace = zlib.crc32(line.encode(), self.trace)
        if self.trace_to is not None:
            self.trace_to(line)

    def start(self, id_: NodeId) -> None:
        machine = self.machines[id_]
        self.met["restart"] += machine.life > 0
        try:
            recovered = machine.start(self.now_ms)
        except CorruptStore:
            machine.chain.was_refused(machine.disk)
            self.met["damaged disk refused"] += 1
            self.refused(machine)
            return
        machine.chain.was_taken()
        self.note(f"start {id_} {recovered.state.term} {recovered.state.head}")
        for checker in self._restarted:
            checker(machine, recovered)
        self.pump(machine)

    def crash(self, id_: NodeId) -> None:
        machine = self.machines[id_]
        if machine.node is None:
            return
        self._count_fault()
        self.met["crash"] += 1
        self.met += machine.crash(self.faults)
        self.view.forget_client(id_)
        self.note(f"crash {id_}")

    def _count_fault(self) -> None:
        """A crash or partition: what did it hit?"""
        machines = self.machines.values()
        if any(machine.is_receiving_snapshot() for machine in machines):
            self.met["fault while a snapshot was under way"] += 1
        if any(machine.is_changing_members() for machine in machines):
            self.met["fault while a membership change was under way"] += 1

    def up(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.node is not None]

    def leader(self) -> Machine | None:
        """The leader of the highest term."""
        looks = [(machine.look(), machine) for machine in self.up()]
        leading = [(look[1], machine) for look, machine in looks if look[0] is Role.LEADER]
        return max(leading, key=lambda pair: pair[0], default=(0, None))[1]

    # -- the host's work

    def pump(self, machine: Machine) -> None:
        """Give the machine's disk its next work, if it is idle; check what has changed."""
        node = machine.node
        assert node is not None
        try:
            while machine.busy is None and node.has_ready():
                ready = machine.busy = node.ready()
                self._check_written(machine, ready)
                self._store(machine, ready)
        except Crash:
            self.met["crash in a write"] += 1
            self.crash(machine.id)
            return
        except StoreFailed:
            self.met["crash of a failed disk"] += 1
            self.crash(machine.id)
            return
        except StoreFull:
            self.met["write waited for a limit"] += 1
            self.wait_for_room(machine)
            return
        facts = machine.look()
        if facts != machine.facts:
            before, machine.facts = machine.facts, facts
            self._count_change(machine, facts, before)
            for checker in self._changed:
                checker(machine, facts, before)

    def _count_change(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        if facts[0] is Role.LEADER and (before is None or before[0] is not Role.LEADER):
            self.met["election won"] += 1
            self.note(f"leader {machine.id} {facts[1]}")

    def wait_for_room(self, machine: Machine) -> None:
        """The write of what the machine has in hand met a limit, and changed nothing."""
        raise NotImplementedError

    def write_again(self, machine: Machine, life: int) -> None:
        """What met a limit in this life."""
        if machine.life != life or machine.busy is None:
            return
        try:
            self._store(machine, machine.busy)
        except StoreFull:
            self.wait_for_room(machine)
            return
        except StoreFailed:
            self.crash(machine.id)
            return
        self.pump(machine)

    def _store(self, machine: Machine, ready: Ready) -> None:
        """Raises Crash, StoreFull, StoreFailed."""
        self._write_and_apply(machine, ready)
        if ready.batch is not None and ready.batch.must_sync:
            self.begin_sync(machine)
        else:
            self.finish(machine)

    def _check_written(self, machine: Machine, ready: Ready) -> None:
        batch = ready.batch
        if batch is not None:
            self.met["birth block dead"] += any(id_.height == 1 for id_ in batch.removed)
            for checker in self._written:
                checker(machine, batch, ready.installed is not None)

    def _write_and_apply(self, machine: Machine, ready: Ready) -> None:
        batch = ready.batch
        if batch is not None:
            assert machine.store is not None
            machine.store.append(batch)
        if ready.installed is not None:
            machine.install(ready.installed.data)
            self.met["snapshot transfer"] += batch is not None and batch.snapshot is not None
        for block in ready.committed:
            machine.apply(block)
            for checker in self._applied:
                checker(machine, block)
        for outcome in ready.outcomes:
            self.note(f"outcome {machine.id} {outcome.result.name} {outcome.block_id}")
            for checker in self._told:
                checker(machine, outcome)
        for read in ready.reads:
            for checker in self._answered:
                checker(machine, read)

    def finish(self, machine: Machine) -> None:
        """The disk is done with what the machine has in hand. Raises Crash."""
        ready, machine.busy = machine.busy, None
        assert ready is not None
        assert machine.node is not None
        assert machine.store is not None
        if ready.batch is not None and ready.batch.must_sync:
            machine.store.sync()
            for checker in self._synced:
                checker(machine)
        for message in ready.messages:
            for checker in self._sent:
                checker(machine, message)
            self.send(message)
        machine.node.advance()

    def finish_and_pump(self, machine: Machine, life: int) -> None:
        """The end of a sync that was begun in this life."""
        if machine.life != life:
            return
        try:
            self.finish(machine)
        except Crash:
            self.met["crash in a write"] += 1
            self.crash(machine.id)
            return
        except StoreFailed:
            self.met["crash of a failed disk"] += 1
            self.crash(machine.id)
            return
        self.pump(machine)

    # -- clients

    def propose(self, machine: Machine, timeout_ms: int = 2000) -> bytes:
        """A proposal with a payload of its own, at this machine."""
        assert machine.node is not None
        payload = b"proposal %d" % self.view.next_proposal()
        now_ms = machine.now_ms(self.now_ms)
        try:
            proposal = machine.node.propose(payload, now_ms, now_ms + timeout_ms)
        except Refused:
            return payload
        self.view.begin(machine.id, proposal.number, payload, proposal.deadline_ms)
        self.pump(machine)
        return payload

    def read(self, machine: Machine) -> None:
        """A linearizable read, at any machine."""
        assert machine.node is not None
        now_ms = machine.now_ms(self.now_ms)
        number = machine.node.read_index(now_ms, now_ms + READ_TIMEOUT_MS)
        self.view.reads[machine.id, number] = self.view.told_max, now_ms + READ_TIMEOUT_MS
        self.pump(machine)


def _overriding(invariants: list[Invariant], hook: str) -> list[Callable[..., None]]:
    """The checkers that have something to say at this hook."""
    return [
        getattr(invariant, hook)
        for invariant in invariants
        if getattr(type(invariant), hook) is not getattr(Invariant, hook)
    ]
