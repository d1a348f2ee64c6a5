"""Damaged frames against real raft nodes behind the real door: nothing may break but the frame.

    python -m tests.simulation.fuzz 100000           so many of each kind, on one core
    python -m tests.simulation.fuzz 1 --seed 42      one board again

A board is three nodes that elect, propose, snapshot and lag, in virtual time. What they say is
recorded, damaged, and said again by members, in others' names and by strangers. A damaged message
of a member that could be true may lead the board astray (Raft trusts its members); it must not
raise, and nothing may grow without bound. A stranger's must change nothing at all.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from josefine_broker.engine.cluster.admission import Roster, Speech, why_not, why_not_payload
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import Origin, RegisterBroker
from josefine_broker.engine.metadata.image import Address, Endpoint
from raft import BlockFile, Config, CorruptBlock, MemoryFiles, Message, Node, NodeId, Refused
from raft.codec import decode, encode
from raft.messages import Propose
from tests.simulation.mutated_frames import damaged_bytes, damaged_message

__all__ = ["Board", "attack", "main", "peak_kb"]

NODES = (1, 2, 3)
STRANGER = 77
TAKEN = "taken"
CLUSTER_ID = "fuzzed"
BORN_MS = 3_000
STEP_MS = 20
ATTACKS_PER_BOARD = 250
KEPT_MAX = 2_000


class Board:
    """Three nodes, their disks, their messages, and what was recorded of them."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.met: Counter[str] = Counter()
        self.recorded: list[Message] = []
        self._queue: list[Message] = []
        self._deaf = 0
        self.nodes: dict[int, Node] = {}
        self._stores: dict[int, BlockFile] = {}
        for id_ in NODES:
            store, recovered = BlockFile.open(MemoryFiles(), NodeId(id_))
            config = Config(
                node_id=NodeId(id_),
                initial_voters=tuple(map(NodeId, NODES)),
                cluster_id=CLUSTER_ID,
                heartbeat_ms=50,
                election_timeout_ms=300,
                snapshot_chunk_bytes=40,
                tail_blocks_max=2,
                forwarded_max=20,
            )
            self._stores[id_] = store
            self.nodes[id_] = Node(config, recovered, now_ms=0, rng=Random(self.rng.random()))

    def go_on(self, for_ms: int) -> None:
        """Honest work, with a node that does not hear for a while, and proposals everywhere."""
        for _ in range(for_ms // STEP_MS):
            self.now_ms += STEP_MS
            if self.rng.random() < 0.03:
                self._deaf = self.rng.choice((0, 0, *NODES))
            if self.rng.random() < 0.4:
                self._propose()
            for id_, node in self.nodes.items():
                node.tick(self.now_ms)
                self._work(id_, node)
            self._deliver()

    def _propose(self) -> None:
        id_ = self.rng.choice(NODES)
        node = self.nodes[id_]
        try:
            node.propose(change(self.rng), self.now_ms, self.now_ms + 500)
            node.read_index(self.now_ms)
            if self.rng.random() < 0.02:
                node.transfer_leadership(NodeId(self.rng.choice(NODES)), self.now_ms)
        except Refused:
            self.met["refused by a node"] += 1

    def _work(self, id_: int, node: Node) -> None:
        while node.has_ready():
            ready = node.ready()
            if ready.batch is not None:
                self._stores[id_].persist(ready.batch)
            self._queue += ready.messages
            node.advance()
            if node.status().blocks_since_snapshot > 8:
                node.compact(b"state " * 20)

    def _deliver(self) -> None:
        queue, self._queue = self._queue, []
        for message in queue:
            if len(self.recorded) < KEPT_MAX:
                self.recorded.append(message)
            elif self.rng.random() < 0.1:
                self.recorded[self.rng.randrange(KEPT_MAX)] = message
            if self._deaf not in (message.to, message.sender):
                self.hear(int(message.sender), encode(message))

    def hear(self, peer: int, data: bytes) -> str:
        """A frame of this peer arrives at whom it names, or at anybody; what became of it."""
        try:
            message = decode(data)
        except CorruptBlock:
            return "no message"
        target = message.to if message.to in self.nodes else self.rng.choice(NODES)
        node = self.nodes[target]
        members = node.status().members.all
        roster = Roster(own_id=target, members=members, registered=NODES, vouched=())
        reason = why_not(roster, peer, Speech.RAFT, message.sender)
        if reason is None and isinstance(message, Propose):
            reason = why_not_payload(message.payload)
        if reason is not None:
            return "refused at the door"
        try:
            node.step(message, self.now_ms)
        except CorruptBlock:
            return "implausible"
        self._work(target, node)
        return TAKEN

    def sizes(self) -> int:
        """What frames could make grow, counted in things and bytes."""
        size = len(self.recorded) + len(self._queue)
        for node in self.nodes.values():
            core = node._core
            incoming = core.archive.incoming
            size += len(core.chain) + (0 if incoming is None else len(incoming.data))
            size += len(core.requests.forwarded._answers) + len(core.requests.reads._confirmed)
        return size


def change(rng: Random) -> bytes:
    """A proposal as brokers make it."""
    id_ = rng.randrange(1, 9)
    register = RegisterBroker(
        broker_id=id_,
        incarnation=f"{id_}-{rng.randrange(1_000)}",
        endpoints=(Endpoint("PLAINTEXT", "host", 9092),),
        raft=Address("host", 9093),
    )
    return encode_change(register, Origin(id_, rng.randrange(1_000)))


def attack(board: Board) -> None:
    """One damaged frame; raises when it breaks more than itself."""
    rng = board.rng
    message = rng.choice(board.recorded)
    if rng.random() < 0.2:
        core = board.nodes[rng.choice(NODES)]._core
        message = replace(message, to=core.id, term=core.term)  # as fresh as can be
    by_stranger = rng.random() < 0.2
    if by_stranger and rng.random() < 0.5:
        message = replace(message, sender=NodeId(STRANGER))
    data = encode(damaged_message(rng, message) if rng.random() < 0.7 else message)
    if rng.random() < 0.3:
        data = damaged_bytes(rng, data)
    peer = STRANGER if by_stranger else int(message.sender)
    if rng.random() < 0.1:
        peer = rng.choice(NODES)
    before = [node._core.durable() for node in board.nodes.values()]
    outcome = board.hear(peer, data)
    board.met[outcome] += 1
    if peer == STRANGER:
        assert outcome != TAKEN
        assert before == [node._core.durable() for node in board.nodes.values()]


def attack_boards(seed: int, attacks: int) -> Counter[str]:
    """One board after another, until so many frames were said; sums of what became of them."""
    met: Counter[str] = Counter()
    while met["frames"] < attacks:
        board = Board(seed)
        number = 0
        try:
            board.go_on(BORN_MS)
            for number in range(ATTACKS_PER_BOARD):
                attack(board)
                if number % 10 == 9:
                    board.go_on(5 * STEP_MS)
            assert board.sizes() < 100_000, board.sizes()
        except BaseException as error:
            error.add_note(
                f"frame {number}; replay: python -m tests.simulation.fuzz 1 --seed {seed}"
            )
            raise
        met += board.met
        met["frames"] += ATTACKS_PER_BOARD
        met["boards"] += 1
        seed += 1
    return met


def peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(arguments: list[str], fuzz: Callable[[int, int], Counter[str]], description: str) -> int:
    """Run `fuzz(seed, frames)` from the command line; say what was met, the time, the memory."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("frames", type=int)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    before = peak_kb()
    for what, times in sorted(fuzz(asked.seed, asked.frames).items()):
        print(f"{times:10} {what}")
    print(f"{time.monotonic() - began:10.1f} seconds, {peak_kb() - before} kB more at the peak")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], attack_boards, "Say damaged frames to raft nodes."))
