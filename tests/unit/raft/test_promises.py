"""A member with a damaged chain: what of its promises is proved, and that it keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from raft import (
    Batch,
    BlockFile,
    BlockId,
    BlockKind,
    Config,
    CorruptStore,
    Height,
    Members,
    MemoryFiles,
    Message,
    Node,
    NodeId,
    Recovered,
    Role,
    Snapshot,
    State,
    Term,
)
from raft.block import make_block
from raft.members import encode_members
from raft.messages import TakeOver, VoteAnswer, VoteRequest
from raft.promises import (
    PROMISED_FILE,
    Found,
    find_promises,
    read_promised,
    write_promised,
)
from raft.synced import SYNCED_FILE

NODE = NodeId(1)
OTHERS = (NodeId(2), NodeId(3))
ALL = (NODE, *OTHERS)


def store_of_two_segments() -> tuple[MemoryFiles, State]:
    """Everything synced: a birth, a snapshot, blocks and votes; and its last state."""
    files = MemoryFiles()
    store, _ = BlockFile.open(files, NODE, segment_bytes=400)
    members = Members(voters=frozenset(ALL))
    birth = make_block(BlockId(Term(0), Height(0)), Term(1), BlockKind.BIRTH,
                       encode_members(members, "c"))  # fmt: skip
    state = State(term=Term(1), vote=NODE, head=birth.id, commit=birth.id)
    store.persist(Batch(state=state, blocks=(birth,)))
    snapshot = Snapshot(last=birth.id, cluster_id="c", members=members, data=b"image")
    state = State(term=Term(1), vote=NODE, head=birth.id, commit=birth.id, root=birth.id)
    store.persist(Batch(state=state, snapshot=snapshot))
    for term in range(2, 8):
        block = make_block(state.head, Term(term), BlockKind.DATA, b"payload %d" % term)
        state = State(
            term=Term(term), vote=OTHERS[0], head=block.id, commit=state.head, root=birth.id
        )
        store.persist(Batch(state=state, blocks=(block,)))
    assert len([name for name in files.names() if name.endswith(".seg")]) > 1
    return files, state


def copy_of(files: MemoryFiles) -> MemoryFiles:
    return files.crash(lambda _, unsynced: unsynced, names_kept=True)


def put(files: MemoryFiles, name: str, data: bytes | None) -> MemoryFiles:
    """A copy with other content in this file; None: without it."""
    copy = copy_of(files)
    copy.remove(name)
    if data is not None:
        file = copy.open(name)
        file.append(data)
        file.sync()
    copy.sync_names()
    return copy


def damages(data: bytes) -> Iterator[bytes | None]:
    """A flipped bit in each byte, each shorter length, and no file at all."""
    yield None
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        yield bytes(flipped)
        yield data[:position]


def test_no_damage_to_one_file_makes_a_node_believe_an_older_promise() -> None:
    files, last = store_of_two_segments()
    outcomes = {"whole": 0, "rebuilt": 0, "lost": 0}

    for name in files.names():
        for data in damages(files.read(name)):
            damaged = put(files, name, data)
            try:
                _, recovered = BlockFile.open(copy_of(damaged), NODE)
            except CorruptStore:
                found = find_promises(damaged, NODE).state
                outcomes["lost" if found is None else "rebuilt"] += 1
                assert found in (None, last), (name, data)
            else:
                outcomes["whole"] += 1
                assert (recovered.state, recovered.promised) == (last, None), (name, data)

    assert min(outcomes.values()) > 100, outcomes


@pytest.mark.parametrize(
    ("which", "kept"), [("first segment", True), ("snapshot", True), ("last segment", False)]
)
def test_promises_are_proved_by_the_last_segment_alone(which: str, kept: bool) -> None:
    files, last = store_of_two_segments()
    segments = [name for name in files.names() if name.endswith(".seg")]
    (snapshot,) = [name for name in files.names() if name.endswith(".snap")]
    name = {"first segment": segments[0], "last segment": segments[-1], "snapshot": snapshot}[which]

    found = find_promises(put(files, name, None), NODE)

    assert found == Found(state=last if kept else None, voters=frozenset(ALL), cluster_id="c")


def test_promises_are_not_proved_without_the_mark_of_what_was_synced() -> None:
    files, _ = store_of_two_segments()
    first = files.names()[0]
    damaged = put(put(files, SYNCED_FILE, None), first, b"")

    assert find_promises(damaged, NODE).state is None


def test_promises_are_not_proved_by_an_end_that_looks_torn() -> None:
    """Next to other damage, a frame that cannot be read may have been a promise."""
    files, _ = store_of_two_segments()
    first, *_, last = [name for name in files.names() if name.endswith(".seg")]
    damaged = put(put(files, first, b""), last, files.read(last) + b"a part of a frame")

    assert find_promises(damaged, NODE).state is None


def test_an_old_copy_of_the_last_segment_proves_nothing() -> None:
    files = MemoryFiles()
    store, _ = BlockFile.open(files, NODE)
    store.persist(Batch(state=State(term=Term(1), vote=NODE)))
    old = files.read(files.names()[0])
    store.persist(Batch(state=State(term=Term(2), vote=OTHERS[0])))

    damaged = put(files, files.names()[0], old)

    with pytest.raises(CorruptStore):
        BlockFile.open(copy_of(damaged), NODE)
    assert find_promises(damaged, NODE).state is None


def test_files_of_another_node_are_not_damaged_ones() -> None:
    files, _ = store_of_two_segments()

    with pytest.raises(CorruptStore, match="belongs to node 1, not to node 2"):
        find_promises(files, NodeId(2))


def test_promises_are_read_as_written_and_no_flipped_bit_is_believed() -> None:
    files, last = store_of_two_segments()
    write_promised(files, last)
    wanted = State(term=last.term, vote=last.vote, head=last.head, commit=last.commit)
    assert read_promised(files) == wanted

    for data in damages(files.read(PROMISED_FILE)):
        if data is not None:
            with pytest.raises(CorruptStore, match=PROMISED_FILE):
                read_promised(put(files, PROMISED_FILE, data))


def test_promises_are_forgotten_once_the_chain_has_reached_their_head() -> None:
    files = MemoryFiles()
    block = make_block(BlockId(Term(0), Height(0)), Term(3), BlockKind.DATA, b"")
    write_promised(files, State(term=Term(2), vote=NODE, head=BlockId(Term(2), Height(9))))
    store, recovered = BlockFile.open(files, NODE)
    assert (recovered.state.term, recovered.state.vote) == (2, NODE)
    assert recovered.promised is not None
    store.persist(Batch(state=State(term=Term(2), vote=NODE)))
    assert PROMISED_FILE in files.names()
    store.persist(Batch(state=State(term=Term(3), head=block.id), blocks=(block,)))
    assert PROMISED_FILE not in files.names(), "a second damage must find the chain alone"

    assert BlockFile.open(files, NODE)[1].promised is None
    assert PROMISED_FILE not in files.names()


# -- as a member


def rebuilding(head: BlockId = BlockId(Term(4), Height(7)), term: int = 5) -> Node:
    """A voter of three that acknowledged `head`, and whose blocks are gone."""
    promised = State(term=Term(term), head=head)
    recovered = Recovered(
        state=State(term=Term(term)),
        blocks=(),
        snapshot=None,
        segments=0,
        cut_bytes=0,
        promised=promised,
    )
    config = Config(node_id=NODE, initial_voters=ALL, cluster_id="c")
    return Node(config, recovered, now_ms=0, rng=Random(1))


@pytest.mark.parametrize(
    ("head", "granted"),
    [((4, 6), False), ((3, 9), False), ((4, 7), True), ((4, 8), True), ((5, 2), True)],
)
@pytest.mark.parametrize("pre", [True, False])
def test_vote_of_a_damaged_voter_needs_the_head_that_it_acknowledged(
    head: tuple[int, int], granted: bool, pre: bool
) -> None:
    node = rebuilding()

    candidate = BlockId(Term(head[0]), Height(head[1]))
    node.step(
        VoteRequest(
            sender=OTHERS[0],
            to=NODE,
            term=Term(6),
            cluster_id="c",
            head=candidate,
            pre=pre,
            forced=False,
        ),
        now_ms=1,
    )

    (answer,) = [each for each in node.ready().messages if isinstance(each, VoteAnswer)]
    assert answer.granted is granted


def test_damaged_voter_does_not_stand_for_election() -> None:
    node = rebuilding()

    node.tick(100_000)
    node.step(TakeOver(sender=OTHERS[0], to=NODE, term=Term(5), cluster_id="c"), 100_001)

    assert node.role is Role.FOLLOWER


class Member:
    """A node with its files."""

    def __init__(self, id_: NodeId, files: MemoryFiles, now_ms: int = 0) -> None:
        self.files = files
        self.store, recovered = BlockFile.open(files, id_)
        config = Config(node_id=id_, initial_voters=ALL, cluster_id="c", tail_blocks_max=0)
        self.node = Node(config, recovered, now_ms=now_ms, rng=Random(id_))

    def work(self) -> list[Message]:
        messages: list[Message] = []
        while self.node.has_ready():
            ready = self.node.ready()
            if ready.batch is not None:
                self.store.persist(ready.batch)
            messages += ready.messages
            self.node.advance()
        return messages


class Trio:
    """Three members and a network that delivers everything 10 ms later."""

    def __init__(self) -> None:
        self.members = {id_: Member(id_, MemoryFiles()) for id_ in ALL}
        self.now_ms = 0
        self.sent: list[Message] = []

    def run(self, for_ms: int) -> None:
        for _ in range(for_ms // 10):
            self.now_ms += 10
            arrived, self.sent = self.sent, []
            for message in arrived:
                self.members[NodeId(message.to)].node.step(message, self.now_ms)
            for member in self.members.values():
                member.node.tick(self.now_ms)
                self.sent += member.work()

    def leader(self) -> NodeId:
        return next(id_ for id_, m in self.members.items() if m.node.role is Role.LEADER)


@pytest.mark.parametrize("by_snapshot", [False, True])
def test_leader_in_office_rebuilds_a_voter_that_lost_blocks_it_had_acknowledged(
    by_snapshot: bool,
) -> None:
    trio = Trio()
    trio.run(5_000)
    leader = trio.leader()
    term = trio.members[leader].node.term
    for _ in range(5):
        trio.members[leader].node.propose(b"x", trio.now_ms, trio.now_ms + 1_000)
        trio.run(500)
    if by_snapshot:
        trio.members[leader].node.compact(b"image")
    lost = next(id_ for id_ in ALL if id_ != leader)
    found = find_promises(trio.members[lost].files, lost)
    assert found.state is not None
    files = MemoryFiles()
    write_promised(files, found.state)

    trio.members[lost] = Member(lost, files, trio.now_ms)
    trio.run(3_000)

    status = trio.members[lost].node.status()
    assert status.commit == trio.members[leader].node.status().commit
    assert trio.members[leader].node.term == term, "no election was needed"
    assert status.members.voters == frozenset(ALL)
    trio.members[leader].node.transfer_leadership(lost, trio.now_ms)
    trio.run(3_000)
    assert trio.leader() == lost, "it is a full voter again"
