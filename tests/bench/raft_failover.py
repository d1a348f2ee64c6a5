"""Failover in virtual time: from the death of the leader to the next commit, in election timeouts.

Every node ticks when `wake_at_ms` says so, messages take a few milliseconds, disks none. A run is a
seed; the leader dies at a random moment between two heartbeats, with proposals going on.
"""

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from statistics import median

from raft import Config, Message, Node, NodeId, Role
from tests.bench.raft_commits import percentile

__all__ = ["measure_failover"]

HEARTBEAT_MS = 100
ELECTION_TIMEOUT_MS = 1000
MESSAGE_MS = (1, 5)
GIVE_UP_MS = 60_000


class World:
    """Nodes, their messages on the way, and a clock that jumps to the next event."""

    def __init__(self, size: int, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        ids = tuple(NodeId(number) for number in range(1, size + 1))
        self.nodes: dict[NodeId, Node] = {}
        for id_ in ids:
            config = Config(
                node_id=id_, initial_voters=ids, cluster_id="bench",
                heartbeat_ms=HEARTBEAT_MS, election_timeout_ms=ELECTION_TIMEOUT_MS,
            )  # fmt: skip
            self.nodes[id_] = Node(config, None, now_ms=0, rng=Random(self.rng.random()))
            self.work(id_)

    def at(self, when_ms: int, event: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (when_ms, self.count, event))

    def work(self, id_: NodeId) -> None:
        """Do what the node asks; come back when it wants to."""
        node = self.nodes[id_]
        while node.has_ready():
            ready = node.ready()
            for message in ready.messages:
                due_ms = self.now_ms + self.rng.randint(*MESSAGE_MS)
                self.at(due_ms, partial(self.deliver, message))
            node.advance()
        wake_ms = node.wake_at_ms()
        if wake_ms is not None:
            self.at(max(wake_ms, self.now_ms + 1), lambda: self.tick(id_))

    def deliver(self, message: Message) -> None:
        if message.to in self.nodes:
            self.nodes[message.to].step(message, self.now_ms)
            self.work(message.to)

    def tick(self, id_: NodeId) -> None:
        node = self.nodes.get(id_)
        wake_ms = None if node is None else node.wake_at_ms()
        # Stale wake-ups are many: one per piece of work.
        if node is not None and wake_ms is not None and wake_ms <= self.now_ms:
            node.tick(self.now_ms)
            self.work(id_)

    def run(self, until: Callable[[], bool], limit_ms: int) -> None:
        end_ms = self.now_ms + limit_ms
        while not until() and self.events and self.now_ms < end_ms:
            self.now_ms, _, event = heapq.heappop(self.events)
            event()

    def leader(self) -> Node | None:
        """One whose own term's block is committed: it serves."""
        for node in self.nodes.values():
            status = node.status()
            if status.role is Role.LEADER and status.commit.term == status.term:
                return node
        return None


def one_failover(size: int, seed: int) -> float:
    """Milliseconds without a leader that can commit."""
    world = World(size, seed)
    world.run(lambda: world.leader() is not None, GIVE_UP_MS)
    world.run(lambda: False, 1000 + world.rng.randrange(HEARTBEAT_MS))
    leader = world.leader()
    assert leader is not None
    del world.nodes[leader.status().node_id]
    died_ms = world.now_ms
    world.run(lambda: world.leader() is not None, GIVE_UP_MS)
    assert world.leader() is not None, f"seed {seed}: no leader in {GIVE_UP_MS} ms"
    return world.now_ms - died_ms


def measure_failover(runs: int) -> Iterator[tuple[str, float]]:
    """(measure/unit, value): median, p99 and worst of so many runs of 3 and of 5 nodes."""
    for size in (3, 5):
        times = [one_failover(size, seed) / ELECTION_TIMEOUT_MS for seed in range(runs)]
        name = f"failover_{size}_nodes_virtual"
        yield f"{name}_median/election_timeouts", median(times)
        yield f"{name}_p99/election_timeouts", percentile(times, 0.99)
        yield f"{name}_worst/election_timeouts", max(times)
        yield f"{name}_over_two/share", sum(time > 2 for time in times) / runs
