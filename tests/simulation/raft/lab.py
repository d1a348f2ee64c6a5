"""A cluster that does what it is told: the commands of the text scenarios, and what they lead to.

Nothing happens by itself: time passes for the node that is ticked, messages wait until they are
delivered, a disk is quick unless it is told to be slow. The checkers look on as in any other run.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from raft import (
    Batch,
    Block,
    BlockId,
    Config,
    Members,
    MemoryFiles,
    Message,
    NodeId,
    Outcome,
    ReadDone,
    Recovered,
    Refused,
)
from tests.simulation.raft.cluster import Cluster
from tests.simulation.raft.describe import describe
from tests.simulation.raft.faults import CALM
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Facts, Machine

__all__ = ["COMMANDS", "Lab"]

STEPS_MAX = 500
"""More messages than this in one command would be a storm."""


class _Onlooker(Invariant):
    """Says what happens, in words."""

    def __init__(self, view: View, say: Callable[[str], None]) -> None:
        super().__init__(view)
        self.say = say

    def restarted(self, machine: Machine, recovered: Recovered) -> None:
        self.say(f"{machine.id} starts: {recovered.report()}" if machine.life else "")

    def changed(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        role, term, head, commit = facts
        said = []
        if before is None or before[:2] != facts[:2]:
            said.append(f"{role.name} of term {term}")
        if before is not None and before[2] != head:
            said.append(f"head {head}")
        if before is not None and before[3] != commit:
            said.append(f"commit {commit}")
        self.say(f"{machine.id} is {', '.join(said)}" if before is not None else "")

    def written(self, machine: Machine, batch: Batch, replaces: bool) -> None:
        if batch.removed:
            self.say(f"{machine.id} removes {_ids(batch.removed)}")
        if batch.snapshot is not None:
            self.say(f"{machine.id} keeps a snapshot up to {batch.snapshot.last}")

    def applied(self, machine: Machine, block: Block) -> None:
        payload = f" {block.payload.decode()}" if block.kind.name == "DATA" else ""
        self.say(f"{machine.id} applies {block.id} {block.kind.name}{payload}")

    def told(self, machine: Machine, outcome: Outcome) -> None:
        where = f" as {outcome.block_id}" if outcome.block_id is not None else ""
        self.say(f"{machine.id} tells its client: {outcome.result.name}{where}")

    def answered(self, machine: Machine, read: ReadDone) -> None:
        said = "ask again" if read.commit is None else f"read at {read.commit}"
        self.say(f"{machine.id} tells its client: {said}")


class Lab(Cluster):
    """Mutable; `run` takes a command and returns what happened."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        super().__init__(lambda view: _Onlooker(view, self._say))
        self.faults = replace(CALM, lost_writes=1.0)  # a crash is always the same
        self._on_the_way: list[Message] = []
        self._late: list[Message] = []
        self._cut: set[NodeId] = set()
        self._slow: set[NodeId] = set()

    def run(self, line: str) -> list[str]:
        """One command. Raises ValueError for one that is unknown."""
        name, *words = line.split()
        if name not in COMMANDS:
            raise ValueError(f"there is no command {name!r}; there are {', '.join(COMMANDS)}")
        self._lines = []
        try:
            COMMANDS[name](self, *words)
        except Refused as error:
            self._say(f"refused: {error}")
        return self._lines

    def _say(self, line: str) -> None:
        if line:
            self._lines.append(line)

    # -- what a cluster leaves open

    def begin_sync(self, machine: Machine) -> None:
        if machine.id not in self._slow:
            self.finish(machine)

    def send(self, message: Message) -> None:
        if {message.sender, message.to} & self._cut:
            self._say(f"{describe(message)} (lost)")
        else:
            self._on_the_way.append(message)

    # -- commands: machines and their disks

    def nodes(self, *words: str) -> None:
        """nodes 1 2 3 [join 4 5] [single]: founders, and nodes that wait to be taken in; with
        `single`, an append carries one block"""
        names = [word for word in words if word != "single"]
        founders = [NodeId(int(n)) for n in names[: names.index("join") if "join" in names else 9]]
        for name in names:
            if name != "join":
                self._add(NodeId(int(name)), founders, 1 if "single" in words else 1000)

    def _add(self, id_: NodeId, founders: list[NodeId], append_bytes_max: int) -> None:
        config = Config(
            node_id=id_,
            initial_voters=tuple(founders) if id_ in founders else (),
            cluster_id=f"proposed by {id_}",
            heartbeat_ms=50,
            election_timeout_ms=300,
            snapshot_chunk_bytes=120,
            tail_blocks_max=0,
            append_bytes_max=append_bytes_max,
        )
        self.machines[id_] = Machine(id=id_, config=config, rng=Random(id_))
        self.start(id_)

    def stop(self, *words: str) -> None:
        """crash 1 2: lose power, and what was not synced"""
        for word in words:
            self.crash(NodeId(int(word)))

    def wipe(self, word: str) -> None:
        """wipe 3: lose power, and the disk with all that is on it"""
        self.stop(word)
        self._machine(word).disk = MemoryFiles()
        self.view.wiped.add(NodeId(int(word)))

    def begin(self, *words: str) -> None:
        """start 1 2"""
        for word in words:
            self.start(NodeId(int(word)))

    def disk(self, word: str, state: str) -> None:
        """disk 1 slow|done: hold its syncs back; end them"""
        machine = self._machine(word)
        if state == "slow":
            self._slow.add(machine.id)
            return
        self._slow.discard(machine.id)
        if machine.busy is not None:
            self.finish_and_pump(machine, machine.life)

    # -- commands: time and messages

    def tick(self, word: str) -> None:
        """tick 1: wait until node 1 has something to do, and let it"""
        machine = self._machine(word)
        assert machine.node is not None
        due_ms = machine.node.wake_at_ms()
        if due_ms is None:
            self._say(f"{word} waits for nothing")
            return
        self.now_ms = max(self.now_ms, due_ms)
        machine.node.tick(self.now_ms)
        self.pump(machine)

    def lead(self, word: str) -> None:
        """lead 1: elect node 1, deliver everything, and say only how it ended"""
        self.tick(word)
        self.deliver()
        role, term, head, _ = self._machine(word).look()
        self._lines = [f"{word} is {role.name} of term {term}, head {head}"]

    def beat(self, word: str, count: str) -> None:
        """beat 1 9: so many heartbeats of node 1, all delivered, not shown"""
        for _ in range(int(count)):
            self.tick(word)
            self.deliver()
        self._lines = []

    def elapse(self, word: str) -> None:
        """elapse 300: so many ms pass, and nobody is ticked"""
        self.now_ms += int(word)

    def deliver(self, *links: str) -> None:
        """deliver [1>2 ...]: all messages, or those of these links, and what follows from them"""
        for _ in range(STEPS_MAX):
            message = next(self._matching(links), None)
            if message is None:
                return
            self._on_the_way.remove(message)
            self._hand_over(message)
        raise ValueError(f"more than {STEPS_MAX} messages: is there a storm?")

    def once(self, *links: str) -> None:
        """once [1>2 ...]: the messages that are on the way now, and not what follows from them"""
        for message in list(self._matching(links)):
            self._on_the_way.remove(message)
            self._hand_over(message)

    def lose(self, *links: str) -> None:
        """lose [1>2 ...]"""
        for message in list(self._matching(links)):
            self._on_the_way.remove(message)
            self._say(f"{describe(message)} (lost)")

    def copy(self, *links: str) -> None:
        """copy [1>2 ...]: the network keeps a second copy of these for later"""
        self._late += self._matching(links)

    def late(self) -> None:
        """late: deliver those copies"""
        copies, self._late = self._late, []
        for message in copies:
            self._hand_over(message)

    def cut(self, *words: str) -> None:
        """cut 3: it is alone from now on"""
        self._cut |= {NodeId(int(word)) for word in words}
        for message in list(self._on_the_way):
            if {message.sender, message.to} & self._cut:
                self._on_the_way.remove(message)

    def heal(self) -> None:
        """heal: all hear each other again"""
        self._cut.clear()

    def _matching(self, links: tuple[str, ...]) -> Iterator[Message]:
        return (m for m in self._on_the_way if not links or f"{m.sender}>{m.to}" in links)

    def _hand_over(self, message: Message) -> None:
        machine = self.machines[message.to]
        if machine.node is None:
            self._say(f"{describe(message)} (lost)")
            return
        self._say(describe(message))
        machine.node.step(message, self.now_ms)
        self.pump(machine)

    # -- commands: clients and operators

    def ask(self, word: str, payload: str, timeout_ms: str = "2000") -> None:
        """propose 1 a [2000]: at node 1, with a deadline in so many ms"""
        machine = self._machine(word)
        assert machine.node is not None
        deadline_ms = self.now_ms + int(timeout_ms)
        proposal = machine.node.propose(payload.encode(), self.now_ms, deadline_ms)
        self.view.begin(machine.id, proposal.number, payload.encode(), deadline_ms)
        self.pump(machine)

    def look_up(self, word: str) -> None:
        """read 1: linearizable, at node 1"""
        self.read(self._machine(word))

    def compact(self, word: str) -> None:
        """compact 1: a snapshot takes the place of what is applied"""
        machine = self._machine(word)
        assert machine.node is not None
        machine.node.compact(machine.snapshot())
        self.pump(machine)

    def members(self, word: str, voters: str, learners: str = "") -> None:
        """members 1 1,2,3 [4]: ask node 1 to make these the voters [and learners]"""
        machine = self._machine(word)
        assert machine.node is not None
        wanted = Members(voters=_node_ids(voters), learners=_node_ids(learners))
        machine.node.change_members(wanted, self.now_ms, self.now_ms + 2000)
        self.pump(machine)

    def transfer(self, word: str, to: str) -> None:
        """transfer 1 2: ask node 1 to hand leadership to node 2"""
        machine = self._machine(word)
        assert machine.node is not None
        machine.node.transfer_leadership(NodeId(int(to)), self.now_ms)
        self.pump(machine)

    def gone(self, word: str, peer: str) -> None:
        """gone 2 1: node 2's host says that node 1 does not run"""
        machine = self._machine(word)
        assert machine.node is not None
        machine.node.peer_gone(NodeId(int(peer)), self.now_ms)
        due_ms = machine.node.wake_at_ms()
        assert due_ms is not None
        is_soon = due_ms - self.now_ms < machine.config.election_timeout_ms // 10
        self._say(f"{word} looks again {'soon' if is_soon else 'later'}")

    # -- commands: looking

    def chain(self, *words: str) -> None:
        """chain 1 2: the path, with commit in brackets, and what lies off it"""
        for word in words:
            machine = self._machine(word)
            assert machine.node is not None
            chain = machine.node.chain
            path = [chain.id_at(h) for h in range(chain.root.height, chain.head.height + 1)]  # type: ignore[arg-type]
            said = " ".join(f"[{id_}]" if id_ == chain.commit else f"{id_}" for id_ in path)
            aside = sorted(b.id for b in chain if not chain.on_head_path(b.id))
            marks = [f"{id_}{'' if chain.is_live(id_) else ' dead'}" for id_ in aside]
            self._say(f"{word}: {said}{' aside: ' if aside else ''}{', '.join(marks)}")

    def identity(self, *words: str) -> None:
        """cluster 1 2: which cluster they say they are of"""
        for word in words:
            machine = self._machine(word)
            assert machine.node is not None
            self._say(f"{word}: {machine.node.status().cluster_id or 'of no cluster yet'}")

    def status(self, *words: str) -> None:
        """status 1 2"""
        for word in words:
            machine = self._machine(word)
            assert machine.node is not None
            now = machine.node.status()
            voters = ",".join(str(id_) for id_ in sorted(now.members.voters))
            learners = ",".join(str(id_) for id_ in sorted(now.members.learners))
            self._say(
                f"{word}: {now.role.name} of term {now.term}, leader {now.leader}, voters {voters}"
                + (f", learners {learners}" if learners else "")
            )

    def _machine(self, word: str) -> Machine:
        return self.machines[NodeId(int(word))]


def _node_ids(word: str) -> frozenset[NodeId]:
    return frozenset(NodeId(int(id_)) for id_ in word.split(",") if id_)


def _ids(ids: tuple[BlockId, ...]) -> str:
    return " ".join(str(id_) for id_ in ids)


COMMANDS: dict[str, Callable[..., None]] = {
    "nodes": Lab.nodes,
    "crash": Lab.stop,
    "wipe": Lab.wipe,
    "start": Lab.begin,
    "disk": Lab.disk,
    "tick": Lab.tick,
    "lead": Lab.lead,
    "beat": Lab.beat,
    "elapse": Lab.elapse,
    "deliver": Lab.deliver,
    "once": Lab.once,
    "lose": Lab.lose,
    "copy": Lab.copy,
    "late": Lab.late,
    "cut": Lab.cut,
    "heal": Lab.heal,
    "propose": Lab.ask,
    "read": Lab.look_up,
    "compact": Lab.compact,
    "members": Lab.members,
    "transfer": Lab.transfer,
    "gone": Lab.gone,
    "chain": Lab.chain,
    "cluster": Lab.identity,
    "status": Lab.status,
}
"""Word → what it does; the docstrings show how it is written."""
